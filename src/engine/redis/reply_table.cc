#include "engine/redis/reply_table.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/bytes.h"

namespace penstock::engine::redis {
namespace {

using enum ReplyAction;

constexpr size_t kLongestExplained = 300;  // bytes of a server's text in a log

// Of two prefixes of which one begins with the other, the longer stands first.
constexpr std::array kTable = {
    ReplyMeaning{"NOSCRIPT", kLoadScript,
                 "the server does not know the script (restart, failover, SCRIPT FLUSH)",
                 "nothing to do: it is loaded again"},
    ReplyMeaning{"MOVED", kRedirect, "another node of the cluster has the slot", "", Redirect::Kind::kMoved},
    ReplyMeaning{"ASK", kRedirect, "the slot is on its way to another node", "", Redirect::Kind::kAsk},
    ReplyMeaning{"TRYAGAIN", kRedirect, "the slot is on the move, its keys on both sides", "",
                 Redirect::Kind::kTryAgain},
    ReplyMeaning{"CLUSTERDOWN", kRedirect, "the cluster, or the slot, is not served at present",
                 "look at CLUSTER INFO: a master without a replica to take over, or slots that no node has",
                 Redirect::Kind::kClusterDown},
    ReplyMeaning{"MASTERDOWN", kRedirect, "a replica without its master, which must not answer",
                 "look at the replication of this server", Redirect::Kind::kClusterDown},
    ReplyMeaning{"READONLY", kRedirect, "this server is a replica",
                 "name the master, or use Sentinel or Cluster", Redirect::Kind::kReadOnly},
    ReplyMeaning{"LOADING", kBackOff, "the server reads its data in after a start",
                 "nothing to do: it ends by itself"},
    ReplyMeaning{"BUSY ", kBackOff, "a script or function of somebody's blocks the server",
                 "look for a slow script (SCRIPT KILL ends one that has not written)"},
    ReplyMeaning{"ERR max number of clients reached", kBackOff, "the server takes no more connections",
                 "raise maxclients, or the open files that the server may have"},
    ReplyMeaning{"NOREPLICAS", kRefuse, "too few replicas follow for the server to accept writes",
                 "look at min-replicas-to-write and at the replicas"},
    ReplyMeaning{"OOM", kRefuse, "the server is at maxmemory and may not evict",
                 "raise maxmemory; limits need maxmemory-policy noeviction"},
    ReplyMeaning{"MISCONF", kRefuse, "the server stopped writes, since it cannot save to disk",
                 "look at the server's log and disk; stop-writes-on-bgsave-error is the setting"},
    ReplyMeaning{"NOPERM", kRefuse, "the server's ACL does not let this user do it",
                 "compare the user's rules with those of docs/engines.md"},
    ReplyMeaning{"NOAUTH", kRefuse, "the server wants a password",
                 "give user and password in the engine's URL"},
    ReplyMeaning{"WRONGPASS", kRefuse, "user or password are wrong, or the user is off",
                 "correct them in the engine's URL, or ACL SETUSER on the server"},
    ReplyMeaning{"DENIED", kRefuse, "the server is in protected mode and takes local connections alone",
                 "give the server a password or a bind address"},
    ReplyMeaning{"NOPROTO", kRefuse, "the server does not speak RESP2", "is this a Redis or Valkey?"},
    ReplyMeaning{"NOGOODSLAVE", kRefuse, "Sentinel finds no replica that could be promoted",
                 "look at the replicas that Sentinel knows"},
    ReplyMeaning{"WRONGTYPE", kCaller, "a key under our prefix holds something that is not ours",
                 "choose another prefix, or delete that key"},
    ReplyMeaning{"CROSSSLOT", kCaller, "keys of several slots in one call: a fault of Penstock's",
                 "please report it"},
    ReplyMeaning{"EXECABORT", kCaller, "a transaction was given up", ""},
    ReplyMeaning{"UNKILLABLE", kCaller, "a script that has written cannot be ended", ""},
    ReplyMeaning{"", kCaller, "an error that has no meaning of its own here", ""},
};

static_assert(kTable.size() <= LinkStats::kMaxReplies);
static_assert(kTable.back().prefix.empty(), "the last row stands for everything else");

const ReplyMeaning& ByPrefix(std::string_view error) {
  return *std::find_if(kTable.begin(), kTable.end(),
                       [&](const ReplyMeaning& row) { return error.starts_with(row.prefix); });
}

constexpr bool IsCode(char c) { return c >= 'A' && c <= 'Z'; }

// The error of a command that a script called, as servers before 7.0 tell it: `ERR Error running script (call to
// f_…): @user_script:3: @user_script: 3: -READONLY You can't write …`. Empty where there is none.
std::string_view Wrapped(std::string_view error) {
  if (!error.starts_with("ERR Error running script")) return {};
  for (size_t at = error.find(" -"); at != std::string_view::npos; at = error.find(" -", at + 1)) {
    const std::string_view inner = error.substr(at + 2);
    if (!inner.empty() && IsCode(inner.front())) return inner;
  }
  return {};
}

// Told by a command inside a script. Redis refuses these for the state of the whole server and before the first write
// alone: a script that has written is let go on.
bool RefusedBeforeAnyWrite(std::string_view error) {
  return error.starts_with("READONLY") || error.starts_with("OOM") || error.starts_with("MISCONF") ||
         error.starts_with("NOREPLICAS");
}

bool CameFromScript(std::string_view error) {
  return error.find(" script: ") != std::string_view::npos ||
         error.find("executing the script") != std::string_view::npos ||
         error.find("in script:") != std::string_view::npos;
}

std::string_view Word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

std::string_view Between(std::string_view text, char quote) {
  const size_t begin = text.find(quote);
  if (begin == std::string_view::npos) return {};
  const size_t end = text.find(quote, begin + 1);
  return end == std::string_view::npos ? std::string_view{} : text.substr(begin + 1, end - begin - 1);
}

// NOPERM names the command ("… no permissions to run the 'script|load' command"), or says that it is about a key or a
// channel.
std::string MissingRule(std::string_view error) {
  if (error.find("channel") != std::string_view::npos) return "the rule &<prefix>* is missing (ACL SETUSER)";
  if (error.find(" key") != std::string_view::npos) return "the rule ~<prefix>* is missing (ACL SETUSER)";
  const std::string_view command = Between(error, '\'');
  if (command.empty()) return "a command's rule is missing: ACL LOG on the server names it";
  std::string out = "the rule +";
  for (const char c : command) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out + " is missing (ACL SETUSER)";
}

}  // namespace

std::span<const ReplyMeaning> ReplyTable() { return kTable; }

const ReplyMeaning& MeaningOf(std::string_view error) {
  const std::string_view wrapped = Wrapped(error);
  if (!wrapped.empty()) return RefusedBeforeAnyWrite(wrapped) ? ByPrefix(wrapped) : kTable.back();
  // A permission that is missing in the midst of a script may be missing after a write.
  if (error.starts_with("NOPERM") && CameFromScript(error)) return kTable.back();
  return ByPrefix(error);
}

bool IsAboutPermission(std::string_view error) {
  return error.starts_with("NOPERM") || error.find("executing the script") != std::string_view::npos ||
         error.find("ACL failure in script") != std::string_view::npos;
}

std::optional<Redirect> ParseRedirect(std::string_view error, Redirect::Kind kind) {
  Redirect out;
  out.kind = kind;
  if (kind != Redirect::Kind::kMoved && kind != Redirect::Kind::kAsk) return out;
  std::string_view rest = error;
  Word(rest);
  const std::optional<int64_t> slot = ParseInt(Word(rest));
  const std::string_view where = Word(rest);
  const size_t colon = where.rfind(':');
  if (!slot || *slot < 0 || *slot >= 16'384 || colon == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> port = ParseInt(where.substr(colon + 1));
  if (!port || *port < 1 || *port > 65'535) return std::nullopt;
  std::string_view host = where.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  out.slot = static_cast<int32_t>(*slot);
  out.host = host;
  out.port = static_cast<uint16_t>(*port);
  return out;
}

std::string Explain(std::string_view error) {
  const ReplyMeaning& row = MeaningOf(error);
  std::string out = "'";
  out.append(error.substr(0, kLongestExplained)).append("'");
  if (IsAboutPermission(error)) return out + ": " + MissingRule(error);
  if (!row.prefix.empty()) out.append(": ").append(row.meaning);
  if (!row.remedy.empty()) out.append("; ").append(row.remedy);
  return out;
}

}  // namespace penstock::engine::redis
