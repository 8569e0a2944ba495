#include "resp/commands.h"

#include "base/ascii.h"

namespace penstock::resp {
namespace {

constexpr uint32_t kAny = CommandSpec::kAnyNumber;

// The busiest first: lookup compares lengths in this order.
constexpr CommandSpec kCommands[] = {
    {CommandId::kThrottle, "cl.throttle", 5, 6, 1, true,
     "Decides under a token bucket of the caller's own parameters", "key max_burst count period [quantity]"},
    {CommandId::kCheck, "pen.check", 3, kAny, 0, true, "Decides under the limits of a domain that match",
     "domain npairs [attribute value ...] [COST n] [COSTS n unit cost ...] [WEIGHT w] [WAIT ms] "
     "[FORCE] [PARTIAL] [REQUESTID id] [HOLDER h] [LEASE ms]"},
    {CommandId::kAcquire, "pen.acquire", 4, kAny, 1, true,
     "Takes permits of a semaphore of the caller's own size",
     "key permits lease_ms [WEIGHT w] [WAIT ms] [HOLDER h] [REQUESTID id]"},
    {CommandId::kRelease, "pen.release", 2, kAny, 0, true, "Gives permits back", "id [id ...]"},
    {CommandId::kRenew, "pen.renew", 3, 3, 0, true, "Prolongs the lease of a permit", "id lease_ms"},
    {CommandId::kHolders, "pen.holders", 2, 2, 1, false, "Lists who holds permits of a semaphore", "key"},
    {CommandId::kPing, "ping", 1, 2, 0, false, "Answers PONG, or the message", "[message]"},
    {CommandId::kEcho, "echo", 2, 2, 0, false, "Answers the message", "message"},
    {CommandId::kHello, "hello", 1, kAny, 0, false,
     "Chooses the protocol version, authenticates, names the connection",
     "[protover] [AUTH username token] [SETNAME name]"},
    {CommandId::kAuth, "auth", 2, 3, 0, false, "Shows the token", "[username] token"},
    {CommandId::kSelect, "select", 2, 2, 0, false, "Takes database 0, the only one", "index"},
    {CommandId::kClient, "client", 2, kAny, 0, false, "Tells or sets what is known of this connection"},
    {CommandId::kCommand, "command", 1, kAny, 0, false, "Tells the commands of this server"},
    {CommandId::kConfig, "config", 2, kAny, 0, false,
     "CONFIG GET tells the few settings that clients ask for"},
    {CommandId::kInfo, "info", 1, kAny, 0, false, "Tells versions and state of this server"},
    {CommandId::kReset, "reset", 1, 1, 0, false, "Takes the connection back to how it began"},
    {CommandId::kQuit, "quit", 1, kAny, 0, false, "Closes the connection"},
};

}  // namespace

std::span<const CommandSpec> AllCommands() { return kCommands; }

const CommandSpec* FindCommand(std::string_view name) {
  for (const CommandSpec& spec : kCommands) {
    if (spec.name.size() == name.size() && EqualsIgnoringCase(name, spec.name)) return &spec;
  }
  return nullptr;
}

}  // namespace penstock::resp
