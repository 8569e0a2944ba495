// What a server's error replies mean, and whether the command may be sent again (rule E10): one table, which
// docs/engines.md repeats.
//
// Thread contract: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/redis/server_link.h"

namespace penstock::engine::redis {

// What a link does with such a reply.
enum class ReplyAction : uint8_t {
  kLoadScript,  // loads the script and sends the command again on the same connection
  kRedirect,    // its owner is told: it belongs elsewhere, or is to be tried again later
  kBackOff,     // the server serves nobody at present: the breaker counts it
  kRefuse,      // the server is set up so, or is full: the command did not run and will not
  kCaller,      // the command's own affair; it may have run in part
};

struct ReplyMeaning {
  std::string_view prefix;  // what the error begins with
  ReplyAction action = ReplyAction::kCaller;
  std::string_view meaning;
  std::string_view remedy;  // for a log; may be empty
  std::optional<Redirect::Kind> redirect = std::nullopt;

  // Whether the command surely did not run, and may be sent again at all.
  constexpr bool did_not_run() const { return action != ReplyAction::kCaller; }
};

std::span<const ReplyMeaning> ReplyTable();

// The table's row for an error reply (its text without the leading '-'); the last row stands for all that it does not
// name. A refusal that Redis wrapped into a script's error is found where it cannot have come after a write.
const ReplyMeaning& MeaningOf(std::string_view error);

// Whether it says that the ACL forbids something, to the command itself or to one that its script called.
bool IsAboutPermission(std::string_view error);

// Where MOVED and ASK point. None if the text is not as it should be.
std::optional<Redirect> ParseRedirect(std::string_view error, Redirect::Kind kind);

// One sentence for a log: the error, what it means, and what to do about it. Of NOPERM it names the missing rule.
std::string Explain(std::string_view error);

}  // namespace penstock::engine::redis
