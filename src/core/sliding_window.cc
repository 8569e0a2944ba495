#include "core/sliding_window.h"

#include <algorithm>

namespace penstock::core {
namespace {

EngineTime StartOfWindow(Micros period, EngineTime at) { return {at.us / period.count * period.count}; }

// Ticks since the window's start; none before it (a clock that stepped back).
int64_t Elapsed(const LimitParams& params, const BucketState& state, EngineTime now) {
  if (now <= state.stamp) return 0;
  return TickIndex(now.us, params.tick) - TickIndex(state.stamp.us, params.tick);
}

// What the window before still weighs, in units of 1 / PeriodTicks.
int64_t WeightBefore(const LimitParams& params, const BucketState& state, EngineTime now) {
  return state.before * (SlidingWindow::PeriodTicks(params) - Elapsed(params, state, now));
}

// Adds `delta` to one window's use, within [0, MaxUse]; true where it was held at MaxUse.
bool Change(const LimitParams& params, int64_t delta, int64_t& use) {
  const int64_t most = SlidingWindow::MaxUse(params);
  const bool held = delta > most - use;
  use = std::clamp<int64_t>(use + delta, 0, most);
  return held;
}

}  // namespace

void SlidingWindow::Advance(const Scene& scene, const LimitParams& stored, BucketEdit& edit) {
  edit.state = scene.bucket.present ? scene.bucket.state : BucketState{};
  BucketState& state = edit.state;
  if (scene.now >= state.stamp + stored.period) {
    const bool adjacent = scene.now < state.stamp + stored.period * 2;
    state = {.stamp = StartOfWindow(stored.period, scene.now), .before = adjacent ? state.value : 0};
  }
  if (state.value == 0 && state.before == 0) {
    state = {.stamp = StartOfWindow(scene.params.period, scene.now)};
  }
}

// Under another period all that counts now becomes use of the window of now, a begun one counted whole. Under the
// same period the windows stay as they are; a finer tick may only lower what can be held.
bool SlidingWindow::Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit) {
  BucketState& state = edit.state;
  if (stored.period != scene.params.period) {
    const int64_t weight = CeilDiv(WeightBefore(stored, state, scene.now), PeriodTicks(stored));
    const EngineTime at = Later(scene.now, state.stamp);
    state = {.stamp = StartOfWindow(scene.params.period, at), .value = state.value + weight};
  }
  const bool held = Change(scene.params, 0, state.value);
  return Change(scene.params, 0, state.before) || held;
}

bool SlidingWindow::Fits(const Scene& scene, const BucketEdit& edit, int64_t cost) {
  const int64_t room = scene.params.capacity - cost - edit.state.value;
  return room >= 0 && WeightBefore(scene.params, edit.state, scene.now) <= room * PeriodTicks(scene.params);
}

EngineTime SlidingWindow::FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost) {
  const LimitParams& params = scene.params;
  const BucketState& state = edit.state;
  const int64_t ticks = PeriodTicks(params);
  int64_t room = params.capacity - cost - state.value;
  int64_t fading = state.before;
  EngineTime start = state.stamp;
  if (room < 0) {  // not in this window: in the next its use fades
    room += state.value;
    fading = state.value;
    start = start + params.period;
  }
  return start + params.tick * (ticks - room * ticks / fading);
}

int64_t SlidingWindow::Available(const Scene& scene, const BucketEdit& edit) {
  const int64_t weight =
      CeilDiv(WeightBefore(scene.params, edit.state, scene.now), PeriodTicks(scene.params));
  const int64_t room = scene.params.capacity - edit.state.value - weight;
  return std::max<int64_t>(room, 0);
}

bool SlidingWindow::Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  charge = {.at = Later(scene.now, edit.state.stamp), .window = edit.state.stamp, .cost = cost};
  edit.write = true;
  return Change(scene.params, cost, edit.state.value);
}

int64_t SlidingWindow::GiveBack(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  const int64_t back = std::min(cost, edit.state.value);
  if (back == 0) return 0;
  charge = {.at = Later(scene.now, edit.state.stamp), .window = edit.state.stamp, .cost = -back};
  edit.state.value -= back;
  edit.write = true;
  return back;
}

bool SlidingWindow::Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit) {
  BucketState& state = edit.state;
  const bool current = charge.window == state.stamp;
  if (!current && charge.window + scene.params.period != state.stamp) return false;
  int64_t& use = current ? state.value : state.before;
  const int64_t earlier = use;
  const bool held = Change(scene.params, delta, use);
  edit.write = edit.write || use != earlier;
  return held;
}

}  // namespace penstock::core
