// Random traffic of permits for the differential test: what traffic.h is for rates. Two permit limits and a rate, asked
// for alone and together, under a clock that goes on, stands, meets expiries to the microsecond and steps back.
//
// The judge is core's rules over the smallest engine of permits (core/testing/permit_book.h). Every answer's every field
// is compared with its. Steps are plain data made from a seed, so that what fails can be cut down.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/params.h"
#include "engine/redis/script.h"
#include "redis/redis_client.h"

namespace penstock::fixtures {

struct PermitStep {
  enum class Kind : uint8_t {
    kAcquire,   // a permit, or with weight 0 a peek
    kNamed,     // under a new request id
    kRepeat,    // of an earlier id's request
    kAskAgain,  // of somebody who stands in a queue
    kCall,      // releases, renewals and places given up, up to four at once
    kList,      // who holds
    kReset,
    kReport,  // counts a permit that was granted elsewhere
    kAdjust,  // takes one limit's permit back by its charge
    kUndo,    // what a node does with a grant that nobody waits for
    kChange,  // a limit's number and lease
    kStale,   // asks by a limit as it was before
    kLook,    // a session still waits here
  };
  static constexpr int kKinds = 13;
  enum class Clock : uint8_t { kStands, kForward, kToLapse, kBeforeLapse, kBack };

  Kind kind = Kind::kAcquire;
  Clock clock = Clock::kStands;
  int64_t amount = 0;     // of the clock
  bool together = false;  // in one script call with the step before, where that can be
  bool by_group = false;
  bool dry = false;
  bool partial = false;
  bool force = false;
  bool named_holder = false;
  int limits = 0;  // who take part, and in which order
  std::array<int64_t, 3> cost{};
  int64_t lease = 0;
  int64_t queue_for = 0;
  int session = 0;
  int back = 0;     // the how-manieth, counted back
  int variant = 0;  // what else there is to choose
};

struct PermitTraffic {
  uint64_t seed = 0;
  std::array<core::RateSpec, 3> limits{};  // two of permits, a rate
  std::array<bool, 3> shadow{};
  std::vector<PermitStep> steps;
};

PermitTraffic MakePermitTraffic(uint64_t seed, int steps);
std::string Print(const PermitTraffic& traffic);
const char* NameOf(PermitStep::Kind kind);

struct PermitTally {
  int64_t steps = 0;
  int64_t shared = 0;
  int64_t granted = 0;
  int64_t denied = 0;
  int64_t queued = 0;
  int64_t from_queue = 0;
  int64_t replayed = 0;
  int64_t stale = 0;
  int64_t listed = 0;
  int64_t turns = 0;                 // told by looks
  std::array<int64_t, 6> by_verb{};  // done and not, of releases, renewals, places given up
  std::array<int64_t, PermitStep::kKinds> kinds{};
};

struct PermitStage {
  std::span<const engine::redis::Script> scripts;
  bool own_clock = false;  // the scripts' clock is SetScriptClock's
  RedisClient& node;       // under test, the scripts loaded
  RedisClient& others;
};

// Plays it on an emptied server. What differs, or nothing.
std::optional<std::string> PlayPermits(const PermitTraffic& traffic, const PermitStage& stage,
                                       PermitTally* tally = nullptr);

}  // namespace penstock::fixtures
