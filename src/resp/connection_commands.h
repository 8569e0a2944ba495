// The commands that need no decision: HELLO, AUTH, PING, CLIENT and their kin, answered from what is known of
// the connection. Clients send them when they connect; the answers are shaped so that each goes on.
//
// Thread contract: one thread; the options are read only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "resp/commands.h"
#include "resp/protocol.h"
#include "resp/request_parser.h"

namespace penstock::resp {

// Constant while sessions use it.
struct SessionOptions {
  std::string token;            // shown by AUTH or HELLO under any user name; empty: nobody needs to
  std::string version = "dev";  // Penstock's own
  Limits limits;
  Limits limits_before_auth = kLimitsBeforeAuth;
  uint32_t max_in_flight = 10'000;                // commands of one connection whose replies are owed
  size_t max_pending_bytes = 1'024 * 1'024;       // replies a peer may leave unread before it is read no more
  std::function<void(std::string&)> append_info;  // optional: more `name:value\r\n` lines for INFO
};

// What a connection said of itself.
struct ConnectionState {
  uint64_t id = 0;
  std::string address;
  Protocol protocol = Protocol::kResp2;
  bool authenticated = false;
  std::string name;
  std::string library_name;
  std::string library_version;
};

enum class AfterReply : uint8_t { kGoOn, kClose };

// Appends the reply. Precondition: `spec` does not decide, its argument count is right, and the connection is
// authenticated unless spec.before_auth().
AfterReply RunConnectionCommand(const CommandSpec& spec, std::span<const std::string_view> args,
                                const SessionOptions& options, ConnectionState& state, std::string& out);

// `ERR unknown command 'x', with args beginning with: 'y' `, long ones cut.
std::string UnknownCommand(std::span<const std::string_view> args);
std::string WrongArgumentCount(std::string_view name);

// COMMAND and its subcommands.
void RunCommandCommand(std::span<const std::string_view> args, Protocol protocol, std::string& out);
// CLIENT and its subcommands.
void RunClientCommand(std::span<const std::string_view> args, ConnectionState& state, std::string& out);

// Names that CLIENT SETNAME, SETINFO and HELLO SETNAME take: printable without spaces, of bounded length.
bool IsLabel(std::string_view text);
std::string UnknownSubcommand(std::string_view subcommand, std::string_view command);

}  // namespace penstock::resp
