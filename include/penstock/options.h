// How a Limiter is set up. Plain data: every field has a default.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/expected.h"
#include "penstock/export.h"

namespace penstock {

struct LimiterOptions {
  // The policy: a file, or the text of one; at most one of the two. With neither only ad hoc limits can be checked.
  // Of a file's sections only `domains` and `revision` are read: the engine is set up by the fields below.
  std::string policy_file = {};
  std::string policy_text = {};

  // Where buckets live: empty or `memory:` for this process, or a store that a fleet shares, as in a policy's
  // `engine.url`: redis://user:password@host:6379/0, rediss://, redis+sentinel://, redis+cluster://, unix://.
  std::string engine_url = {};
  // With a store: no call waits longer for a decision. What the store has not answered by then is `unavailable`, or
  // decided by what a limit's on_failure says.
  std::chrono::milliseconds timeout{20};
  std::string key_prefix = "pen:";  // before every key in the store
  // Nodes that share a limit while the store is away (on_failure `local`); 0: as many as the store last heard of.
  unsigned fleet_size = 0;
  // Threads of the library's own that talk to the store; 1 to 64.
  unsigned loops = 1;

  // Buckets (one a limit and key) in memory at once; about 48 bytes each. When all are in use, a request that needs
  // one more is answered `unavailable`, reason kFull.
  uint64_t max_keys = 10'000'000;
  // What such an answer says for limits whose on_failure is `local` (the default): false denies, true allows.
  bool allow_when_full = false;

  // Where use is kept over a restart; empty: it is not. Written every `snapshot_every`, by SaveSnapshot, and when the
  // limiter goes. What was used since the last write is lost if the process is killed.
  // A lock on the file's name with `.lock` behind it is held meanwhile: a second limiter or server on it does not open.
  std::string snapshot_file = {};
  std::chrono::milliseconds snapshot_every{60'000};
  // Start without use when the snapshot is damaged or was written by a newer release; otherwise Open fails then.
  bool discard_bad_snapshot = false;

  // Threads that decide at the same time without waiting for each other's bookkeeping; 0: twice the processors, 4 to
  // 64. Any number of threads may call; each place costs about 64 KiB.
  unsigned places = 0;
};

// A limit that a caller brings along, without policy. All calls for one key share a bucket an algorithm: the last
// caller's parameters hold, and what was used stays used when they change.
struct AdHocLimit {
  enum class Algorithm : unsigned char {
    kTokenBucket,           // `burst` at once, then count per period
    kFixedWindow,           // count in each period, aligned to the epoch
    kFixedWindowFromFirst,  // count in each period, which begins with the first request
    kSlidingWindow,         // count in any period, estimated from two windows
    kSlidingLog,            // count in any period, exactly; count at most 10,000
  };

  int64_t count = 0;  // 1 or more
  std::chrono::microseconds period{0};
  std::optional<int64_t> burst = {};  // token bucket only; count when not given
  Algorithm algorithm = Algorithm::kTokenBucket;

  // From the text that a policy file takes: `100/min`, `5/10s`, `1_000_000/30d`.
  PENSTOCK_EXPORT static Expected<AdHocLimit> Parse(std::string_view rate);
};

// A limit on concurrency that a caller brings along. All calls for one key share its holders; the last caller's number
// of permits holds.
struct Semaphore {
  int64_t permits = 0;                      // 1 or more, at most 2^31-1
  std::chrono::milliseconds lease{30'000};  // how long one is held without renewal: 100 ms to 24 h
};

}  // namespace penstock
