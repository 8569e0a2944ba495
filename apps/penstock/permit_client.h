// Permits of a server, over HTTP: asked for, renewed, given back.
//
// Thread contract: a client is constant; its calls block and may be made from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "commands.h"
#include "core/permit.h"
#include "http_client.h"

namespace penstock::app {

// What a server said to a request for a permit.
struct PermitAnswer {
  bool allowed = false;
  bool degraded = false;   // decided without the engine
  bool any_limit = false;  // a limit applied at all
  std::string outcome;     // allowed, denied, never, unavailable
  std::string reason;      // of unavailable and degraded; may be empty
  std::string id;          // empty: no permit was granted
  std::optional<int64_t> fence;
  int64_t expires_in_ms = 0;
  int64_t waited_ms = 0;
  std::string limit, remaining, retry_after_ms;  // as people read them; "-" where there is none
  std::string json;                              // all of it
};

struct PermitFateAnswer {
  core::PermitFate fate = core::PermitFate::kUnavailable;
  int64_t expires_in_ms = 0;  // renewed
};

// Durations of the flags, in the words of a policy: 30s, 1500ms. Empty text: 0.
Result<int64_t> FlagMillis(std::string_view flag, std::string_view text);

// The body of POST /v1/check; kInvalid names what is wrong with the flags.
Result<std::string> AcquireBody(const PermitFlags& flags);

// kUnavailable where it is no answer at all, kInvalid where the server says what is wrong with the question.
Result<PermitAnswer> ReadPermitAnswer(std::string json);
Result<PermitFateAnswer> ReadPermitFate(const HttpReply& reply);

class PermitClient {
 public:
  static Result<PermitClient> Of(const std::string& server);

  // `cancel_fd` as in HttpCall, here and below.
  Result<PermitAnswer> Acquire(std::string_view body, int64_t wait_ms, int cancel_fd = -1) const;
  // lease_ms: 0 = the limit's own.
  Result<PermitFateAnswer> Renew(std::string_view id, int64_t lease_ms, int timeout_ms,
                                 int cancel_fd = -1) const;
  Result<PermitFateAnswer> Release(std::string_view id, int timeout_ms) const;
  // The server's own words; an Error for what is none.
  Result<std::string> Ask(std::string_view method, std::string_view target, std::string_view body) const;

  static constexpr int kPatienceMs = 5'000;  // for an answer, beyond the time that one asked to wait

 private:
  PermitClient(ServerUrl server, std::string token) : server_(std::move(server)), token_(std::move(token)) {}
  Result<PermitFateAnswer> Settle(std::string_view target, std::string_view body, int timeout_ms,
                                  int cancel_fd) const;

  ServerUrl server_;
  std::string token_;
};

// kExitUnavailable or kExitUsage, with the words on stderr.
int ComplainOf(const Error& error);
// Of an answer that is not allowed, on stderr; the exit code.
int SayRefusal(const PermitAnswer& answer);
// Of an answer that is allowed: on stderr, what is less than a permit of the engine. False where no limit applied, which
// is a slip in the attributes and nothing to go on with.
bool SayWhatIsHeld(const PermitAnswer& answer);

}  // namespace penstock::app
