// Sliding log: remembers what was spent when, and counts exactly what was spent within the last period. A run counts
// at every instant from its own until just before its own + period. `value` is the weight of all runs kept, `stamp`
// the instant of the newest. Expired runs are dropped by the next write, and there are at most kMaxLogCount: force
// can ask for more, which then counts with the newest run (never shorter than its own time).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm.h"
#include "core/ticks.h"

namespace penstock::core {

struct SlidingLog {
  static constexpr bool kKeepsInstants = true;

  static bool SameMeaning(const LimitParams& a, const LimitParams& b) { return a.period == b.period; }
  static bool FadesAlike(const LimitParams& a, const LimitParams& b) { return a.period == b.period; }
  static constexpr int64_t MaxUse(const LimitParams&) { return kMaxExact; }

  static void Advance(const Scene& scene, const LimitParams& stored, BucketEdit& edit);
  static bool Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit);

  static bool Fits(const Scene& scene, const BucketEdit& edit, int64_t cost) {
    return edit.state.value <= scene.params.capacity - cost;
  }
  static EngineTime FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost);
  static int64_t Available(const Scene& scene, const BucketEdit& edit) {
    const int64_t room = scene.params.capacity - edit.state.value;
    return std::max<int64_t>(room, 0);
  }
  static EngineTime IdleAt(const LimitParams& params, const BucketState& state) {
    return state.value == 0 ? EngineTime{} : state.stamp + params.period;
  }

  static bool Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  static int64_t GiveBack(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  static bool Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit);
};

}  // namespace penstock::core
