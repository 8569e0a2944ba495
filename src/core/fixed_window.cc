#include "core/fixed_window.h"

#include <algorithm>

namespace penstock::core {
namespace {

// The end of the window that `at` lies in.
EngineTime EndOfWindow(const Scene& scene, EngineTime at) {
  const int64_t period = scene.params.period.count;
  if (scene.params.window == WindowKind::kEpoch) return {(at.us / period + 1) * period};
  if (scene.params.window == WindowKind::kFirstRequest) return at + scene.params.period;
  const WindowBoundaries& edges = *scene.boundaries;
  if (at < edges.current) return edges.current;
  return at < edges.next ? edges.next : edges.end_of_next;
}

}  // namespace

void FixedWindow::Advance(const Scene& scene, const LimitParams&, BucketEdit& edit) {
  const BucketState& state = scene.bucket.state;
  if (scene.bucket.present && state.value > 0 && state.stamp > scene.now) {
    edit.state = state;
  } else {
    edit.state.stamp = EndOfWindow(scene, scene.now);
  }
}

// Use moves into the window of now by the new length. A calendar's edges do not depend on parameters.
bool FixedWindow::Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit) {
  if (edit.state.value == 0) return false;
  const EngineTime start = edit.state.stamp - stored.period;
  edit.state.stamp = EndOfWindow(scene, Later(scene.now, start));
  return false;
}

bool FixedWindow::Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  charge = {.at = scene.now, .window = edit.state.stamp, .cost = cost};
  const int64_t held = std::min(cost, MaxUse(scene.params) - edit.state.value);
  edit.state.value += held;
  edit.write = true;
  return held < cost;
}

int64_t FixedWindow::GiveBack(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  const int64_t back = std::min(cost, edit.state.value);
  if (back == 0) return 0;
  charge = {.at = scene.now, .window = edit.state.stamp, .cost = -back};
  edit.state.value -= back;
  edit.write = true;
  return back;
}

bool FixedWindow::Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit) {
  if (charge.window <= scene.now) return false;  // its window is over: nothing to give back or to charge
  if (edit.state.value == 0) edit.state.stamp = charge.window;
  if (edit.state.stamp != charge.window) return false;
  Charge ignored;
  if (delta > 0) return Take(scene, delta, edit, ignored);
  GiveBack(scene, -delta, edit, ignored);
  return false;
}

}  // namespace penstock::core
