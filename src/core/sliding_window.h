// Sliding window: the use of the current window counts whole, that of the window before by the share of it that the
// last period still covers. Windows are aligned to the epoch. `stamp` is the start of the current window, `value` its
// use, `before` that of the window before. Time inside the window moves in ticks (rule E2), so that the comparison
// before * (P - elapsed) <= (C - used - cost) * P is exact.
#pragma once

#include <cstdint>

#include "core/algorithm.h"
#include "core/ticks.h"

namespace penstock::core {

struct SlidingWindow {
  static constexpr bool kKeepsInstants = false;

  static bool SameMeaning(const LimitParams& a, const LimitParams& b) {
    return a.period == b.period && a.tick == b.tick;
  }
  static bool FadesAlike(const LimitParams& a, const LimitParams& b) { return a.period == b.period; }
  static int64_t PeriodTicks(const LimitParams& params) {
    return TickIndex(params.period.count, params.tick);
  }
  // Use above this would make a product pass kMaxExact.
  static int64_t MaxUse(const LimitParams& params) { return kMaxExact / PeriodTicks(params); }

  static void Advance(const Scene& scene, const LimitParams& stored, BucketEdit& edit);
  static bool Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit);
  static bool Fits(const Scene& scene, const BucketEdit& edit, int64_t cost);
  static EngineTime FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost);
  static int64_t Available(const Scene& scene, const BucketEdit& edit);
  static bool Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  static int64_t GiveBack(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  static bool Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit);

  static EngineTime IdleAt(const LimitParams& params, const BucketState& state) {
    if (state.value > 0) return state.stamp + params.period * 2;
    return state.before > 0 ? state.stamp + params.period : EngineTime{};
  }
};

}  // namespace penstock::core
