// The commands of the RESP port: one table of names, argument counts and help, which lookup, COMMAND and the
// errors share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace penstock::resp {

enum class CommandId : uint8_t {
  // Decided by the service.
  kThrottle,
  kCheck,
  kAcquire,
  kRelease,
  kRenew,
  kHolders,
  // Answered by the session.
  kPing,
  kEcho,
  kHello,
  kAuth,
  kSelect,
  kClient,
  kCommand,
  kConfig,
  kInfo,
  kReset,
  kQuit,
};

struct CommandSpec {
  static constexpr uint32_t kAnyNumber = std::numeric_limits<uint32_t>::max();

  CommandId id;
  std::string_view name;  // in lower case
  uint32_t least_args;    // the name counts
  uint32_t most_args;     // kAnyNumber: what the parser lets through
  uint32_t first_key;     // position of the key, 0 where there is none
  bool writes;
  std::string_view summary;
  std::string_view usage = {};  // the arguments as a person reads them, [optional] ones in brackets

  bool decides() const { return id <= CommandId::kHolders; }
  bool before_auth() const {
    return id == CommandId::kHello || id == CommandId::kAuth || id == CommandId::kQuit ||
           id == CommandId::kReset;
  }
};

std::span<const CommandSpec> AllCommands();

// Without regard to case; null if there is no such command.
const CommandSpec* FindCommand(std::string_view name);

}  // namespace penstock::resp
