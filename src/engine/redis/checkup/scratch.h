// Decisions on buckets of the checkup's own, by the engine as it is: ten clients at once, one after another, and while a
// server is replaced. Nobody else's bucket can have their names, and they are dropped afterwards.
//
// Thread contract: one thread, which is not a loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/limit.h"
#include "engine/engine.h"
#include "engine/redis/checkup/latency_check.h"
#include "engine/redis/checkup/report.h"

namespace penstock::checkup {

// A limit that no policy has: its domain is no name.
core::Limit ScratchLimit(core::Algorithm algorithm, int64_t count, Micros period);

// What ten clients got of one bucket.
struct RaceResult {
  std::string_view algorithm;
  int64_t capacity = 0;
  uint64_t asked = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t unavailable = 0;
  uint64_t other = 0;    // never, stale, …: not to be expected
  int64_t refilled = 0;  // at most so many came back while it ran
  bool cleaned = false;  // the bucket was dropped
  Micros reset_after{};  // when `before_drop` had returned
  std::string reason;    // of the unavailable ones, the last
};

struct ScratchParts {
  engine::Engine& engine;
  const Clock& clock;
  Micros timeout;  // of one decision
};

// Ten clients ask for four times the capacity of one bucket. `before_drop` is called when all have been answered.
using BeforeDrop = std::function<void(const core::Limit& limit, std::string_view key)>;
RaceResult Race(const ScratchParts& parts, core::Algorithm algorithm, const BeforeDrop& before_drop);
// "atomicity"
Finding CheckAtomicity(const std::vector<RaceResult>& races);

// One decision in flight, each on another bucket, `times` or as many as `most` allows.
DecisionLatency MeasureDecisions(const ScratchParts& parts, size_t times, Micros most);

// Decides one after another until `done` says so, at most `most`.
struct Outage {
  uint64_t decided = 0;
  uint64_t unavailable = 0;
  Micros longest{};    // without a decision
  bool ended = false;  // the last ones were decided
};
Outage WatchOutage(const ScratchParts& parts, const std::function<bool()>& done, Micros most);

}  // namespace penstock::checkup
