// A client of one server that asks and waits, for the questions of administration: one connection, greeted with user and
// password, made when first used and again when it was lost. Several commands are sent together and answered in order.
//
// Thread contract: one thread, which is not the loop's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dialer.h"
#include "base/result.h"
#include "base/time.h"
#include "engine/redis/checkup/loop_thread.h"
#include "engine/redis/checkup/value.h"

namespace penstock::checkup {

struct Login {
  std::string user;      // empty: the default user
  std::string password;  // empty: none is shown
  int64_t database = 0;
};

using Command = std::vector<std::string>;

class Client {
 public:
  static constexpr Micros kPatience = Seconds(3);  // of one call

  struct Timed {
    Value value;
    SteadyTime sent;  // on the loop's thread, without the way between threads
    SteadyTime received;
  };

  // The loop must outlive it.
  Client(LoopThread& loop, DialTarget target, Login login);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // An error where there is no connection, it was refused, or a reply did not come; an error reply is a value.
  Result<std::vector<Value>> Ask(const std::vector<Command>& commands);
  Result<Value> Ask(const Command& command);
  // The same command `times` in turn, each after the reply to the one before; fewer when it takes longer than `most`.
  Result<std::vector<Timed>> Repeat(const Command& command, size_t times, Micros most);

  // The next question makes a new connection.
  void HangUp();

  const DialTarget& target() const { return target_; }
  std::string where() const { return target_.Text(); }

 private:
  class Line;
  struct Call;

  Result<std::vector<Timed>> Carry(const std::shared_ptr<Call>& call, Micros patience);

  LoopThread& loop_;
  const DialTarget target_;
  const Login login_;
  std::unique_ptr<Line> line_;  // touched on the loop's thread alone
};

}  // namespace penstock::checkup
