// Fixed window: a count that starts again at each edge. `stamp` is the END of the window that `value` was used in, so
// that windows of any kind (aligned to the epoch, from the first request, by the calendar) need no second field. A
// window without use is not remembered; one whose end is still ahead counts, also after the clock stepped back.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm.h"
#include "core/ticks.h"

namespace penstock::core {

struct FixedWindow {
  static constexpr bool kKeepsInstants = false;

  static bool SameMeaning(const LimitParams& a, const LimitParams& b) { return a.period == b.period; }
  static bool FadesAlike(const LimitParams& a, const LimitParams& b) { return a.period == b.period; }
  static constexpr int64_t MaxUse(const LimitParams&) { return kMaxExact; }

  static void Advance(const Scene& scene, const LimitParams& stored, BucketEdit& edit);
  static bool Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit);

  static bool Fits(const Scene& scene, const BucketEdit& edit, int64_t cost) {
    return edit.state.value <= scene.params.capacity - cost;
  }
  static EngineTime FitsAt(const Scene&, const BucketEdit& edit, int64_t) { return edit.state.stamp; }
  static int64_t Available(const Scene& scene, const BucketEdit& edit) {
    const int64_t room = scene.params.capacity - edit.state.value;
    return std::max<int64_t>(room, 0);
  }
  static EngineTime IdleAt(const LimitParams&, const BucketState& state) {
    return state.value == 0 ? EngineTime{} : state.stamp;
  }

  static bool Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  static int64_t GiveBack(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  static bool Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit);
};

}  // namespace penstock::core
