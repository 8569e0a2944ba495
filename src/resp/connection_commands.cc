#include "resp/connection_commands.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "base/bytes.h"
#include "resp/writer.h"

namespace penstock::resp {
namespace {

// The Redis whose manners this port has; clients look at it to see what they may send.
constexpr std::string_view kRedisVersion = "7.0.15";
constexpr std::string_view kWrongPass = "WRONGPASS invalid username-password pair or user is disabled.";
constexpr std::string_view kBadLabel =
    "ERR Client names cannot contain spaces, newlines or special characters.";

bool ShowsToken(std::string_view password, const SessionOptions& options) {
  return options.token.empty() || ConstantTimeEquals(options.token, password);
}

struct HelloRequest {
  Protocol protocol;
  std::optional<std::string_view> password;
  std::optional<std::string_view> name;
};

// Reads the arguments of HELLO, or says why not.
std::string ReadHello(std::span<const std::string_view> args, HelloRequest& request) {
  if (args.size() < 2) return {};
  const std::optional<int64_t> version = ParseInt(args[1]);
  if (!version) return "ERR Protocol version is not an integer or out of range";
  if (*version != 2 && *version != 3) return "NOPROTO unsupported protocol version";
  request.protocol = *version == 3 ? Protocol::kResp3 : Protocol::kResp2;
  for (size_t i = 2; i < args.size();) {
    const size_t left = args.size() - i - 1;
    if (EqualsIgnoringCase(args[i], "auth") && left >= 2) {
      request.password = args[i + 2];
      i += 3;
    } else if (EqualsIgnoringCase(args[i], "setname") && left >= 1) {
      if (!IsLabel(args[i + 1])) return std::string(kBadLabel);
      request.name = args[i + 1];
      i += 2;
    } else {
      return "ERR Syntax error in HELLO option '" + std::string(args[i].substr(0, 128)) + "'";
    }
  }
  return {};
}

void Hello(std::span<const std::string_view> args, const SessionOptions& options, ConnectionState& state,
           std::string& out) {
  HelloRequest request{.protocol = state.protocol, .password = {}, .name = {}};
  const std::string problem = ReadHello(args, request);
  if (!problem.empty()) return Writer(out, state.protocol).Error(problem);
  if (request.password) {
    if (!ShowsToken(*request.password, options)) return Writer(out, state.protocol).Error(kWrongPass);
    state.authenticated = true;
  }
  if (!state.authenticated) {
    return Writer(out, state.protocol)
        .Error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> "
            "AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol "
            "version at "
            "the same time");
  }
  if (request.name) state.name = *request.name;
  state.protocol = request.protocol;
  Writer writer(out, state.protocol);
  writer.Map(7);
  writer.Bulk("server");
  writer.Bulk("penstock");
  writer.Bulk("version");
  writer.Bulk(options.version);
  writer.Bulk("proto");
  writer.Integer(static_cast<int64_t>(state.protocol));
  writer.Bulk("id");
  writer.Integer(static_cast<int64_t>(state.id));
  writer.Bulk("mode");
  writer.Bulk("standalone");
  writer.Bulk("role");
  writer.Bulk("master");
  writer.Bulk("modules");
  writer.Array(0);
}

void Auth(std::span<const std::string_view> args, const SessionOptions& options, ConnectionState& state,
          Writer& writer) {
  if (options.token.empty() && args.size() == 2) {
    return writer.Error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  }
  if (!ShowsToken(args.back(), options)) return writer.Error(kWrongPass);
  state.authenticated = true;
  writer.Ok();
}

void Select(std::string_view index, Writer& writer) {
  const std::optional<int64_t> database = ParseInt(index);
  if (!database) return writer.Error("ERR value is not an integer or out of range");
  if (*database != 0) return writer.Error("ERR DB index is out of range");
  writer.Ok();
}

// redis-benchmark asks for save and appendonly before it starts.
void Config(std::span<const std::string_view> args, Writer& writer) {
  struct Setting {
    std::string_view name;
    std::string_view value;
  };
  static constexpr Setting kSettings[] = {{"save", ""}, {"appendonly", "no"}, {"databases", "1"}};
  if (!EqualsIgnoringCase(args[1], "get")) return writer.Error(UnknownSubcommand(args[1], "CONFIG"));
  if (args.size() < 3) return writer.Error(WrongArgumentCount("config|get"));
  const auto asked = [&](const Setting& setting) {
    return std::any_of(args.begin() + 2, args.end(), [&](std::string_view pattern) {
      return pattern == "*" || EqualsIgnoringCase(pattern, setting.name);
    });
  };
  writer.Map(static_cast<size_t>(std::count_if(std::begin(kSettings), std::end(kSettings), asked)));
  for (const Setting& setting : kSettings) {
    if (!asked(setting)) continue;
    writer.Bulk(setting.name);
    writer.Bulk(setting.value);
  }
}

void Info(const SessionOptions& options, Writer& writer) {
  std::string text = "# Server\r\nredis_version:";
  text += kRedisVersion;
  text += "\r\npenstock_version:";
  text += options.version;
  text += "\r\nredis_mode:standalone\r\n";
  if (options.append_info) options.append_info(text);
  // Clients wait until loading is 0 before they send commands.
  text += "\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";
  writer.Bulk(text);
}

void Reset(const SessionOptions& options, ConnectionState& state, std::string& out) {
  state.protocol = Protocol::kResp2;
  state.authenticated = options.token.empty();
  state.name.clear();
  Writer(out, state.protocol).Simple("RESET");
}

}  // namespace

AfterReply RunConnectionCommand(const CommandSpec& spec, std::span<const std::string_view> args,
                                const SessionOptions& options, ConnectionState& state, std::string& out) {
  Writer writer(out, state.protocol);
  switch (spec.id) {
    case CommandId::kPing:
      args.size() == 2 ? writer.Bulk(args[1]) : writer.Simple("PONG");
      break;
    case CommandId::kEcho:
      writer.Bulk(args[1]);
      break;
    case CommandId::kHello:
      Hello(args, options, state, out);
      break;
    case CommandId::kAuth:
      Auth(args, options, state, writer);
      break;
    case CommandId::kSelect:
      Select(args[1], writer);
      break;
    case CommandId::kClient:
      RunClientCommand(args, state, out);
      break;
    case CommandId::kCommand:
      RunCommandCommand(args, state.protocol, out);
      break;
    case CommandId::kConfig:
      Config(args, writer);
      break;
    case CommandId::kInfo:
      Info(options, writer);
      break;
    case CommandId::kReset:
      Reset(options, state, out);
      break;
    case CommandId::kQuit:
      writer.Ok();
      return AfterReply::kClose;
    default:  // decision commands, by the precondition
      break;
  }
  return AfterReply::kGoOn;
}

bool IsLabel(std::string_view text) {
  constexpr size_t kMaxLabelBytes = 256;
  return text.size() <= kMaxLabelBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

std::string UnknownCommand(std::span<const std::string_view> args) {
  constexpr size_t kMost = 128;  // of the name, and of the arguments together
  std::string message = "ERR unknown command '";
  message += args[0].substr(0, kMost);
  message += "', with args beginning with: ";
  const size_t start = message.size();
  for (size_t i = 1; i < args.size() && message.size() - start < kMost; ++i) {
    message += '\'';
    message += args[i].substr(0, kMost - (message.size() - start));
    message += "' ";
  }
  return message;
}

std::string WrongArgumentCount(std::string_view name) {
  return "ERR wrong number of arguments for '" + std::string(name) + "' command";
}

std::string UnknownSubcommand(std::string_view subcommand, std::string_view command) {
  std::string message = "ERR unknown subcommand '";
  message += subcommand.substr(0, 128);
  message += "'. Try ";
  message += command;
  message += " HELP.";
  return message;
}

}  // namespace penstock::resp
