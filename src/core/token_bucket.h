// Token bucket (rules E2, E3, E8). The state is a debt in units: a token costs `unit_cost` units and `drain` units
// drain away each tick, so that no fraction is ever rounded. `stamp` is the instant the debt is true at; a tick is
// floor(stamp / tick). Full bucket = no debt = absent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm.h"
#include "core/ticks.h"

namespace penstock::core {

struct TokenBucket {
  static constexpr bool kKeepsInstants = false;

  // The largest debt that whole tokens make within kMaxExact.
  static int64_t MaxDebt(const LimitParams& params) {
    return kMaxExact / params.unit_cost * params.unit_cost;
  }

  static void Advance(const Scene& scene, const LimitParams& stored, BucketEdit& edit) {
    if (!scene.bucket.present) {
      edit.state = {.stamp = scene.now};
      return;
    }
    edit.state = scene.bucket.state;
    if (scene.now <= edit.state.stamp) return;  // a clock that stepped back: no time has passed (rule E5)
    const int64_t elapsed =
        TickIndex(scene.now.us, stored.tick) - TickIndex(edit.state.stamp.us, stored.tick);
    edit.state.value = std::max<int64_t>(0, edit.state.value - BoundedProduct(stored.drain, elapsed));
    edit.state.stamp = scene.now;
  }

  static bool Fits(const Scene& scene, const BucketEdit& edit, int64_t cost) {
    return edit.state.value <= (scene.params.capacity - cost) * scene.params.unit_cost;
  }

  static EngineTime FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost) {
    const int64_t excess = edit.state.value - (scene.params.capacity - cost) * scene.params.unit_cost;
    return AfterTicks(edit.state.stamp, CeilDiv(excess, scene.params.drain), scene.params.tick);
  }

  static int64_t Available(const Scene& scene, const BucketEdit& edit) {
    const int64_t room = scene.params.capacity * scene.params.unit_cost - edit.state.value;
    return room < scene.params.unit_cost ? 0 : room / scene.params.unit_cost;
  }

  static EngineTime IdleAt(const LimitParams& params, const BucketState& state) {
    if (state.value == 0) return state.stamp;
    const int64_t ticks = params.drain == 1 ? state.value : CeilDiv(state.value, params.drain);
    return AfterTicks(state.stamp, ticks, params.tick);
  }

  // Adds `cost` tokens of debt; true when the debt had to be held at MaxDebt.
  static bool AddDebt(const LimitParams& params, int64_t cost, int64_t& debt) {
    const int64_t units = BoundedProduct(cost, params.unit_cost);
    if (units <= kMaxExact - debt) [[likely]] {
      debt += units;
      return false;
    }
    debt = MaxDebt(params);
    return true;
  }

  static bool Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
    charge = {.at = edit.state.stamp, .debt_before = edit.state.value, .cost = cost};
    edit.write = true;
    return AddDebt(scene.params, cost, edit.state.value);
  }

  static bool SameMeaning(const LimitParams& a, const LimitParams& b) {
    return a.drain == b.drain && a.unit_cost == b.unit_cost && a.tick == b.tick;
  }

  static bool FadesAlike(const LimitParams& a, const LimitParams& b) { return SameMeaning(a, b); }

  static bool Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit);
  static int64_t GiveBack(const Scene& scene, int64_t tokens, BucketEdit& edit, Charge& charge);
  static bool Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit);
};

}  // namespace penstock::core
