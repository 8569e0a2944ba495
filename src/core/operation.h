// One limit's part in one request: what the engine reads (in), what it must write (edit), and what the caller is
// told (verdict). An engine fills `bucket`, calls DecideGroup (group.h), and carries the edits out or not, all of
// them in one critical section.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash.h"
#include "base/time.h"
#include "core/limit.h"
#include "core/permit.h"
#include "penstock/outcome.h"

namespace penstock::core {

// A bucket's stored state. What the fields mean depends on the algorithm (see its header); an absent bucket is one
// without any use.
struct BucketState {
  // token bucket: of `value`; fixed window: its end; sliding window: its start; log: newest run; permits: latest expiry
  EngineTime stamp;
  int64_t value = 0;   // token bucket: debt in units; windows: used; log: sum of all runs kept; permits: held
  int64_t before = 0;  // sliding window: used in the window before; permits: the last fence

  friend bool operator==(const BucketState&, const BucketState&) = default;
};

// Sliding log: `weight` was spent at `at`. Runs are in ascending order of `at`, weights positive.
struct LogRun {
  EngineTime at{};
  int64_t weight = 0;
  friend bool operator==(const LogRun&, const LogRun&) = default;
};

// A bucket as the engine found it. `params` and `version` are those it was last written with.
struct BucketView {
  bool present = false;
  Version version = 0;
  const LimitParams* params = nullptr;  // not null when present
  BucketState state{};
  std::span<const LogRun> runs{};  // sliding log only

  // Permits only, set where present.
  const HolderOrder* holders = nullptr;
  const Holder* own = nullptr;  // under the asker's id, expired or not; null: none
  bool waits = false;           // the asker stands in the queue
  bool overtakes = false;       // others stand in it before him
};

// What to write. The engine stores `state` with the limit's own params and version; for a log it then amends one run
// (a settle), drops from both ends and appends, in that order.
struct BucketEdit {
  bool write = false;
  BucketState state{};
  bool amend = false;        // the run at amend_index of BucketView::runs gets amend_weight; 0 removes it
  uint32_t amend_index = 0;  // never one of the runs that are dropped
  int64_t amend_weight = 0;
  uint32_t drop_oldest = 0;
  uint32_t drop_newest = 0;
  uint32_t append_count = 0;  // 0 to 2 runs
  PermitChange permit = PermitChange::kNone;
  LogRun append[2];
};

// What a charge must remember so that it can be undone, settled or replayed (rules E4, E10).
struct Charge {
  EngineTime at{};          // the engine's instant of the charge (not before the stamp it met)
  EngineTime window{};      // windows: BucketState::stamp of the window that was charged; permits: the fence
  int64_t debt_before = 0;  // token bucket: d0, in units; permits: the expiry in us
  int64_t cost = 0;         // what was taken; 0 = nothing charged
  Version version = 0;      // of the limit that was charged
};

struct Verdict {
  Outcome outcome = Outcome::kUnavailable;
  bool saturated = false;
  bool queued = false;    // kDenied: the asker stands in this limit's queue
  int64_t limit = 0;      // capacity; -1 = unlimited
  int64_t remaining = 0;  // after this request; -1 = unlimited
  int64_t taken = 0;
  // kDenied: refused at every instant before now + this, admitted at it. Permits: by expiries alone, so it may pass sooner.
  Micros retry_after{};
  Micros reset_after{};  // until no use is left
  Micros wait{};         // kAllowed with max_wait: when it may go
};

// Edges of a calendar window by the caller's estimate of the engine's time: previous start, current start, next
// start, end of the next. An engine clock outside [previous, end_of_next) makes the group stale.
struct WindowBoundaries {
  EngineTime previous, current, next, end_of_next;
};

struct Operation {
  // In, from the service.
  const Limit* limit = nullptr;
  std::span<const std::string_view> key;         // the key's values, in the order of limit->key_names
  int64_t cost = 0;                              // in [-kMaxCost, kMaxCost]
  uint8_t unit = 0;                              // operations of one unit share the number (partial)
  const WindowBoundaries* boundaries = nullptr;  // calendar windows only

  // In, from the engine.
  bool named = false;  // `name` is set
  Hash128 name;        // the engine's own name of the bucket
  BucketView bucket;
  // A strict limit's: the store may have lost what it granted, and grants nothing before this instant.
  EngineTime granted_from;

  // Out.
  Verdict verdict;
  BucketEdit edit;
  Charge charge;
  bool skipped = false;  // a replayed answer in which this limit took no part
};

// Whether the operation put a holder into its bucket.
inline bool GrantsPermit(const Operation& operation) {
  return IsPermits(*operation.limit) && operation.charge.cost > 0;
}

}  // namespace penstock::core
