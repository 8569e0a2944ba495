#include "engine/redis/server_link_greeting.h"

#include <utility>

#include "base/bytes.h"
#include "engine/redis/build_name.h"
#include "engine/redis/reply_table.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

bool Unknown(std::string_view error) {
  return error.starts_with("ERR unknown command") || error.starts_with("ERR unknown subcommand") ||
         error.starts_with("ERR Unknown command") || error.starts_with("ERR Unknown subcommand");
}

}  // namespace

void Greeting::Add(Command command, std::string& out, std::initializer_list<std::string_view> args) {
  commands_.push_back(command);
  resp::AppendCommand(out, args);
}

void Greeting::Begin(std::string& out) {
  if (options_.password.empty())
    return Add(Command::kHello, out, {"HELLO", "2", "SETNAME", ConnectionName()});
  const std::string_view user = options_.user.empty() ? "default" : std::string_view(options_.user);
  Add(Command::kHello, out, {"HELLO", "2", "AUTH", user, options_.password, "SETNAME", ConnectionName()});
}

void Greeting::AddAuth(std::string& out) {
  if (!options_.password.empty()) {
    if (options_.user.empty()) {
      Add(Command::kAuth, out, {"AUTH", options_.password});
    } else {
      Add(Command::kAuth, out, {"AUTH", options_.user, options_.password});
    }
  }
  Add(Command::kSetName, out, {"CLIENT", "SETNAME", ConnectionName()});
}

void Greeting::AddRest(std::string& out) {
  if (options_.database != 0) {
    Add(Command::kSelect, out, {"SELECT", std::to_string(options_.database)});
  }
  Add(Command::kTime, out, {"TIME"});
  // Who decides there (Sentinel does not) must know when a master that is cut off stops.
  if (options_.topology != TopologyKind::kSingle && !scripts_.empty())
    Add(Command::kReplicas, out, {"CONFIG", "GET", "min-replicas-*"});
  for (const Script& script : scripts_) Add(Command::kScript, out, {"SCRIPT", "LOAD", script.text});
  Add(Command::kPing, out, {"PING"});
}

Greeting::State Greeting::Fail(Command command, std::string_view error) {
  constexpr std::string_view kNames[] = {"HELLO", "AUTH",       "CLIENT SETNAME", "SELECT",
                                         "TIME",  "CONFIG GET", "SCRIPT LOAD",    "PING"};
  // An old server repeats the arguments of a command that it does not know.
  std::string told(error.substr(0, error.find(", with args")));
  const std::string& secret = options_.password;
  for (size_t at = 0; !secret.empty() && (at = told.find(secret, at)) != std::string::npos;) {
    told.replace(at, secret.size(), "***");
    at += 3;
  }
  why_ = std::string(kNames[static_cast<size_t>(command)]) + " was answered with " + Explain(told);
  if (command == Command::kSelect) why_ += "; the engine's URL names the database";
  return State::kFailed;
}

Greeting::State Greeting::Refused(Command command, std::string_view error, std::string& out) {
  const ReplyMeaning& row = MeaningOf(error);
  switch (command) {
    case Command::kHello: {
      const bool other_way = row.action == ReplyAction::kCaller || error.starts_with("NOPERM");
      if (!other_way) return Fail(command, error);
      AddAuth(out);
      AddRest(out);
      return State::kGoesOn;
    }
    case Command::kSetName:
      return State::kGoesOn;  // a name is a courtesy
    case Command::kReplicas:
      return State::kGoesOn;  // nobody needs it but strict limits
    case Command::kTime:
    case Command::kScript:
      return Unknown(error) ? State::kGoesOn : Fail(command, error);
    case Command::kPing:
      // The server is there, although this user may not ask whether.
      return error.starts_with("NOPERM") ? State::kGoesOn : Fail(command, error);
    case Command::kAuth:
    case Command::kSelect:
      break;
  }
  return Fail(command, error);
}

void Greeting::ReadReplicas(std::span<const resp::ReplyNode> reply) {
  std::optional<int64_t> least, seconds;
  for (size_t i = 1; i + 1 < reply.size(); i += 2) {
    if (reply[i].text == "min-replicas-to-write") least = ParseInt(reply[i + 1].text);
    if (reply[i].text == "min-replicas-max-lag") seconds = ParseInt(reply[i + 1].text);
  }
  const bool bounded = least && seconds && *least > 0 && *seconds > 0 && *seconds < 1'000'000'000;
  if (bounded) max_lag_ = Seconds(*seconds);
}

Greeting::State Greeting::Next(std::span<const resp::ReplyNode> reply, std::string& out) {
  const Command command = commands_[next_++];
  const resp::ReplyNode& root = reply.front();
  State state = State::kGoesOn;
  if (root.type == resp::ReplyType::kError) {
    state = Refused(command, root.text, out);
  } else if (command == Command::kHello) {
    AddRest(out);
  } else if (command == Command::kReplicas && root.type == resp::ReplyType::kArray) {
    ReadReplicas(reply);
  } else if (command == Command::kTime && root.type == resp::ReplyType::kArray && root.children == 2) {
    const std::optional<int64_t> seconds = ParseInt(reply[1].text);
    const std::optional<int64_t> micros = ParseInt(reply[2].text);
    if (seconds && micros && *seconds >= 0 && *seconds < 1'000'000'000'000) {
      time_ = EngineTime{*seconds * 1'000'000 + *micros};
    }
  }
  if (state == State::kGoesOn && owed() == 0) state = State::kDone;
  return state;
}

}  // namespace penstock::engine::redis
