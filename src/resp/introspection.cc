// COMMAND and CLIENT: what tools ask of a server before they trust it.
#include <algorithm>
#include <cctype>

#include "base/ascii.h"
#include "base/bytes.h"
#include "resp/connection_commands.h"
#include "resp/writer.h"

namespace penstock::resp {
namespace {

// One entry of COMMAND: ten fields, as Redis 7 has them.
void WriteCommandInfo(const CommandSpec& spec, Writer& writer) {
  const bool fixed = spec.least_args == spec.most_args;
  const auto least = static_cast<int64_t>(spec.least_args);
  writer.Array(10);
  writer.Bulk(spec.name);
  writer.Integer(fixed ? least : -least);
  if (spec.before_auth()) {
    writer.Array(2);
    writer.Simple("fast");
    writer.Simple("no_auth");
  } else {
    writer.Array(2);
    writer.Simple(spec.writes ? "write" : "readonly");
    writer.Simple("fast");
  }
  writer.Integer(spec.first_key);
  writer.Integer(spec.first_key);
  writer.Integer(spec.first_key > 0 ? 1 : 0);
  writer.Array(1);
  writer.Simple(spec.decides() ? "@write" : "@connection");
  writer.Array(0);  // tips
  writer.Array(0);  // key specifications
  writer.Array(0);  // subcommands
}

// The next argument of a usage, taken from its front: a word, or what stands in brackets.
std::string_view TakeArgument(std::string_view& usage) {
  size_t end = usage.front() == '[' ? usage.find(']') + 1 : usage.find(' ');
  end = std::min(end, usage.size());
  const std::string_view argument = usage.substr(0, end);
  usage.remove_prefix(std::min(end + 1, usage.size()));
  return argument;
}

// So that redis-cli shows them while one types.
void WriteArguments(std::string_view usage, Writer& writer) {
  size_t count = 0;
  for (std::string_view left = usage; !left.empty(); ++count) TakeArgument(left);
  writer.Array(count);
  while (!usage.empty()) {
    std::string_view argument = TakeArgument(usage);
    const bool optional = argument.front() == '[';
    if (optional) argument = argument.substr(1, argument.size() - 2);
    writer.Map(optional ? 3 : 2);
    writer.Bulk("name");
    writer.Bulk(argument);
    writer.Bulk("type");
    writer.Bulk("string");
    if (!optional) continue;
    writer.Bulk("flags");
    writer.Array(1);
    writer.Simple("optional");
  }
}

void WriteDocs(const CommandSpec& spec, Writer& writer) {
  writer.Bulk(spec.name);
  writer.Map(4);
  writer.Bulk("summary");
  writer.Bulk(spec.summary);
  writer.Bulk("since");
  writer.Bulk("0.1.0");  // Penstock's first version, which had them all
  writer.Bulk("group");
  writer.Bulk(spec.decides() ? "generic" : "connection");
  writer.Bulk("arguments");
  WriteArguments(spec.usage, writer);
}

void WriteNames(Writer& writer) {
  const auto commands = AllCommands();
  writer.Array(commands.size());
  for (const CommandSpec& spec : commands) writer.Bulk(spec.name);
}

void WriteInfos(std::span<const std::string_view> names, Writer& writer) {
  if (names.empty()) {
    writer.Array(AllCommands().size());
    for (const CommandSpec& spec : AllCommands()) WriteCommandInfo(spec, writer);
    return;
  }
  writer.Array(names.size());
  for (const std::string_view name : names) {
    const CommandSpec* spec = FindCommand(name);
    spec != nullptr ? WriteCommandInfo(*spec, writer) : writer.NullArray();
  }
}

// Commands nobody knows are left out, as Redis does.
void WriteAllDocs(std::span<const std::string_view> names, Writer& writer) {
  if (names.empty()) {
    writer.Map(AllCommands().size());
    for (const CommandSpec& spec : AllCommands()) WriteDocs(spec, writer);
    return;
  }
  writer.Map(static_cast<size_t>(std::count_if(
      names.begin(), names.end(), [](std::string_view name) { return FindCommand(name) != nullptr; })));
  for (const std::string_view name : names) {
    if (const CommandSpec* spec = FindCommand(name)) WriteDocs(*spec, writer);
  }
}

void SetInfo(std::string_view attribute, std::string_view value, ConnectionState& state, Writer& writer) {
  const bool is_name = EqualsIgnoringCase(attribute, "lib-name");
  if (!is_name && !EqualsIgnoringCase(attribute, "lib-ver")) {
    return writer.Error("ERR Unrecognized option '" + std::string(attribute.substr(0, 128)) + "'");
  }
  if (!IsLabel(value)) {
    return writer.Error(std::string("ERR ") + (is_name ? "lib-name" : "lib-ver") +
                        " cannot contain spaces, newlines or special characters.");
  }
  (is_name ? state.library_name : state.library_version) = value;
  writer.Ok();
}

// This connection only: others live on other threads.
std::string Describe(const ConnectionState& state) {
  std::string line = "id=";
  AppendInt(line, static_cast<int64_t>(state.id));
  line += " addr=";
  line += state.address;
  line += " name=";
  line += state.name;
  line += " db=0 user=default resp=";
  AppendInt(line, static_cast<int64_t>(state.protocol));
  line += " lib-name=";
  line += state.library_name;
  line += " lib-ver=";
  line += state.library_version;
  line += '\n';
  return line;
}

// Wishes that hold without doing anything: no connection makes the server evict, touch, track or fall silent.
bool HoldsAnyway(std::string_view subcommand, std::string_view wish) {
  const bool on = EqualsIgnoringCase(wish, "on");
  const bool off = EqualsIgnoringCase(wish, "off");
  if (EqualsIgnoringCase(subcommand, "no-evict") || EqualsIgnoringCase(subcommand, "no-touch"))
    return on || off;
  return (EqualsIgnoringCase(subcommand, "reply") && on) ||
         (EqualsIgnoringCase(subcommand, "tracking") && off);
}

}  // namespace

void RunCommandCommand(std::span<const std::string_view> args, Protocol protocol, std::string& out) {
  Writer writer(out, protocol);
  if (args.size() == 1) return WriteInfos({}, writer);
  const auto names = args.subspan(2);
  if (EqualsIgnoringCase(args[1], "count") && names.empty()) {
    writer.Integer(static_cast<int64_t>(AllCommands().size()));
  } else if (EqualsIgnoringCase(args[1], "list") && names.empty()) {
    WriteNames(writer);
  } else if (EqualsIgnoringCase(args[1], "info")) {
    WriteInfos(names, writer);
  } else if (EqualsIgnoringCase(args[1], "docs")) {
    WriteAllDocs(names, writer);
  } else {
    writer.Error(UnknownSubcommand(args[1], "COMMAND"));
  }
}

void RunClientCommand(std::span<const std::string_view> args, ConnectionState& state, std::string& out) {
  Writer writer(out, state.protocol);
  const auto is = [&](std::string_view subcommand, size_t count) {
    return args.size() == count && EqualsIgnoringCase(args[1], subcommand);
  };
  if (is("id", 2)) {
    writer.Integer(static_cast<int64_t>(state.id));
  } else if (is("getname", 2)) {
    state.name.empty() ? writer.Null() : writer.Bulk(state.name);
  } else if (is("setname", 3)) {
    if (!IsLabel(args[2])) {
      return writer.Error("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    state.name = args[2];
    writer.Ok();
  } else if (is("setinfo", 4)) {
    SetInfo(args[2], args[3], state, writer);
  } else if (is("info", 2) || EqualsIgnoringCase(args[1], "list")) {
    writer.Bulk(Describe(state));
  } else if (args.size() == 3 && HoldsAnyway(args[1], args[2])) {
    writer.Ok();
  } else {
    writer.Error(UnknownSubcommand(args[1], "CLIENT"));
  }
}

}  // namespace penstock::resp
