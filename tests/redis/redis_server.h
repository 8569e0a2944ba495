// A Redis of a test's own: Debian's redis-server, or the program that PENSTOCK_REDIS_SERVER names (valkey-server), in a
// folder of its own, on 127.0.0.1 and a Unix socket. It ends with this object, or with the thread that started it.
//
// Its URLs log in as a node does (users.h), Connect as the default user: under test is what the documented rules permit,
// and the test itself may do everything.
//
// What does not work is thrown (FixtureError) with the end of the server's log. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "redis/port.h"
#include "redis/redis_client.h"

namespace penstock::fixtures {

enum class Keep : uint8_t { kData, kNothing };

class RedisServer {
 public:
  enum class Kind : uint8_t { kServer, kClusterNode, kSentinel };

  // The program's path, or nothing where it is not installed.
  static std::optional<std::string> Program();
  // What to say then.
  static std::string Missing();

  // Starts it with these lines in its configuration, after those that every test needs: nothing is saved to disk
  // unless a line or Restart says so.
  explicit RedisServer(std::vector<std::string> lines = {});
  // The same without waiting until it answers: many start side by side. Call WaitReady before use.
  RedisServer(Kind kind, std::vector<std::string> lines);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void WaitReady();  // PING is answered, or refused for want of a password

  void Stop();    // SIGTERM: connections are closed, further ones refused
  void Kill();    // SIGKILL
  void Freeze();  // SIGSTOP: connections stay, the kernel still takes new ones, nobody answers
  void Thaw();    // SIGCONT
  void Start();   // again on the same port and path, with what its files kept; waits until it answers
  void Restart(Keep keep);  // at once, with its data or empty
  bool running();

  RedisClient Connect() const;
  // As NodeUser. Throws where that user may do what no rule gives it.
  RedisClient ConnectAsNode() const;
  // The users of all connections that have a node's name (penstock-…).
  std::set<std::string> UsersOfNodes() const;
  std::string Url() const;      // redis://USER:PASSWORD@127.0.0.1:PORT
  std::string UnixUrl() const;  // unix://USER:PASSWORD@/…
  uint16_t port() const { return port_.number(); }
  uint16_t bus_port() const { return bus_port_->number(); }  // kClusterNode
  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  std::string Log() const;  // its last lines

 private:
  void WriteConfiguration(Kind kind, const std::vector<std::string>& lines) const;
  void Launch();
  void End(int signal);

  const Port port_;
  std::optional<Port> bus_port_;
  std::string folder_;
  std::string path_;  // of the Unix socket
  bool sentinel_ = false;
  bool frozen_ = false;
  pid_t pid_ = -1;
};

// Looks every few milliseconds until `holds` is true; throws FixtureError, naming what was waited for, if that never
// comes. A connection that breaks meanwhile counts as not yet.
void WaitFor(const std::string& what, const std::function<bool()>& holds,
             std::chrono::seconds at_most = std::chrono::seconds(60));

}  // namespace penstock::fixtures
