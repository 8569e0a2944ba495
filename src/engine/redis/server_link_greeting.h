// What is said first on a connection: who we are, which database, what the server's clock says, and every script, so
// that a missing one is rare later. The last word is a PING: a server that reads its data in or is blocked by a script
// is connected, but of no use yet. Internal to the link.
//
// HELLO goes alone, because servers before 6.0 do not know it and what follows then begins with AUTH; the rest is
// pipelined. A command that a server does not know (Sentinel has neither TIME nor SCRIPT) is done without.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engine/redis/exchange.h"
#include "engine/redis/options.h"
#include "engine/redis/script.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis {

class Greeting {
 public:
  enum class State : uint8_t { kGoesOn, kDone, kFailed };

  // Both must outlive it.
  Greeting(const Options& options, std::span<const Script> scripts)
      : options_(options),
        scripts_(scripts),
        max_lag_(options.topology == TopologyKind::kSingle ? Micros{} : Exchange::kNoBound) {}

  // Appends the first commands.
  void Begin(std::string& out);
  // The reply to the next command; appends what is to be sent after it.
  State Next(std::span<const resp::ReplyNode> reply, std::string& out);
  // Commands whose replies are to come.
  size_t owed() const { return commands_.size() - next_; }

  // TIME's answer, once after it came.
  std::optional<EngineTime> TakeTime() { return std::exchange(time_, std::nullopt); }
  // As Exchange::Meet has it; good once it is done.
  Micros max_lag() const { return max_lag_; }
  // After kFailed: the cause and its remedy. Never with a secret in it.
  const std::string& why() const { return why_; }

 private:
  enum class Command : uint8_t { kHello, kAuth, kSetName, kSelect, kTime, kReplicas, kScript, kPing };

  void Add(Command command, std::string& out, std::initializer_list<std::string_view> args);
  void AddAuth(std::string& out);
  void AddRest(std::string& out);
  void ReadReplicas(std::span<const resp::ReplyNode> reply);
  State Refused(Command command, std::string_view error, std::string& out);
  State Fail(Command command, std::string_view error);

  const Options& options_;
  const std::span<const Script> scripts_;
  std::vector<Command> commands_;  // sent; those from next_ on are not answered
  size_t next_ = 0;
  std::optional<EngineTime> time_;
  Micros max_lag_;
  std::string why_;
};

}  // namespace penstock::engine::redis
