// Outgoing byte streams, without the sockets: what a client of a store needs of an event loop. net/ implements it;
// tests implement it by hand.
//
// Thread contract: the loop's thread, all of it. Nothing here throws or blocks: a host name is looked up elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

// Whom to call. A Unix socket where `path` is set, else host and port.
struct DialTarget {
  std::string host;  // a name or an IP address
  uint16_t port = 0;
  std::string path;
  bool tls = false;
  std::string tls_ca;    // PEM file of the authorities to believe; empty: the system's
  std::string tls_cert;  // PEM files of our own certificate; empty: none
  std::string tls_key;
  std::string tls_name;  // the name that the peer's certificate must have; empty: `host`

  std::string Text() const;  // host:port or the path, for logs
  friend bool operator==(const DialTarget&, const DialTarget&) = default;
};

// Who hears of a stream. Nothing is called from inside Dial or Write, nor after the Stream was destroyed. A handler may
// destroy its stream inside any of these calls.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  virtual void Connected() noexcept = 0;
  // Where the next bytes go; not empty.
  virtual std::span<char> ReceiveSpace() noexcept = 0;
  virtual void Received(size_t count) noexcept = 0;
  // It could not be made, or has ended; once, and the last call. `why` is for a log.
  virtual void Closed(std::string_view why) noexcept = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;  // closes it
  // Takes the bytes. What is written in one turn of the loop leaves in one system call where the kernel takes it.
  virtual void Write(std::string_view bytes) noexcept = 0;
  // Bytes taken and not yet given to the kernel: the writer's measure of a peer that does not read.
  virtual size_t unsent() const noexcept = 0;
};

class Dialer {
 public:
  virtual ~Dialer() = default;
  virtual std::unique_ptr<Stream> Dial(const DialTarget& target, StreamHandler& handler) = 0;
};

}  // namespace penstock
