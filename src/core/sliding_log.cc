#include "core/sliding_log.h"

#include <algorithm>
#include <span>

namespace penstock::core {
namespace {

// The runs that still count.
std::span<const LogRun> Live(const Scene& scene, const BucketEdit& edit) {
  return scene.bucket.runs.subspan(edit.drop_oldest);
}

// The log's own now: never before its newest run (rule E5).
EngineTime LogNow(const Scene& scene, const BucketEdit& edit) {
  return edit.state.value == 0 ? scene.now : Later(scene.now, edit.state.stamp);
}

// Marks the runs that are `period` old or older at `now` as dropped.
void DropExpired(const Scene& scene, Micros period, EngineTime now, BucketEdit& edit) {
  for (const LogRun& run : Live(scene, edit)) {
    if (run.at + period > now) break;
    edit.state.value -= run.weight;
    ++edit.drop_oldest;
  }
}

void Append(EngineTime at, int64_t weight, BucketEdit& edit) {
  edit.append[edit.append_count++] = {at, weight};
  edit.state.stamp = at;
  edit.write = true;
}

// Gives the live run at `index` another weight; 0 removes it.
void Amend(const Scene& scene, size_t index, int64_t weight, BucketEdit& edit) {
  const std::span<const LogRun> live = Live(scene, edit);
  edit.state.value += weight - live[index].weight;
  edit.amend = edit.write = true;
  edit.amend_index = edit.drop_oldest + static_cast<uint32_t>(index);
  edit.amend_weight = weight;
  const bool newest = index + 1 == live.size();
  if (newest && weight == 0) edit.state.stamp = index == 0 ? EngineTime{} : live[index - 1].at;
}

// By force into the instant of the charge, or the next one after it that is kept: it never counts shorter than it
// would have.
bool AddLate(const Scene& scene, const Charge& charge, int64_t weight, BucketEdit& edit) {
  if (charge.at + scene.params.period <= LogNow(scene, edit)) return false;
  const int64_t held = std::min(weight, SlidingLog::MaxUse(scene.params) - edit.state.value);
  if (held == 0) return true;
  std::span<const LogRun> live = Live(scene, edit);
  const auto later = std::ranges::lower_bound(live, charge.at, {}, &LogRun::at);
  if (later != live.end()) {
    Amend(scene, static_cast<size_t>(later - live.begin()), later->weight + held, edit);
    return held < weight;
  }
  DropExpired(scene, scene.params.period, charge.at, edit);  // the log's now is that instant from here on
  live = Live(scene, edit);
  edit.state.value += held;
  if (live.size() < static_cast<size_t>(kMaxLogCount)) {
    Append(charge.at, held, edit);
  } else {
    edit.drop_newest = 1;
    Append(charge.at, live.back().weight + held, edit);
  }
  return held < weight;
}

}  // namespace

void SlidingLog::Advance(const Scene& scene, const LimitParams& stored, BucketEdit& edit) {
  if (!scene.bucket.present) return;
  edit.state = scene.bucket.state;
  DropExpired(scene, stored.period, LogNow(scene, edit), edit);
}

bool SlidingLog::Convert(const Scene& scene, const LimitParams&, BucketEdit& edit) {
  DropExpired(scene, scene.params.period, LogNow(scene, edit), edit);
  return false;
}

// By the runs as the edit leaves them: an adjusted charge asks after it.
EngineTime SlidingLog::FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost) {
  int64_t excess = edit.state.value - (scene.params.capacity - cost);
  const std::span<const LogRun> runs = scene.bucket.runs.first(scene.bucket.runs.size() - edit.drop_newest);
  for (size_t i = edit.drop_oldest; i < runs.size(); ++i) {
    excess -= edit.amend && i == edit.amend_index ? edit.amend_weight : runs[i].weight;
    if (excess <= 0) return runs[i].at + scene.params.period;
  }
  return edit.state.stamp + scene.params.period;  // with the newest, which the edit appends
}

bool SlidingLog::Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  const EngineTime at = LogNow(scene, edit);
  charge = {.at = at, .cost = cost};
  const int64_t held = std::min(cost, MaxUse(scene.params) - edit.state.value);
  if (held == 0) return true;
  const std::span<const LogRun> live = Live(scene, edit);
  int64_t weight = held;
  if (!live.empty() && (live.back().at == at || live.size() == static_cast<size_t>(kMaxLogCount))) {
    weight += live.back().weight;
    edit.drop_newest = 1;
  }
  edit.state.value += held;
  Append(at, weight, edit);
  return held < cost;
}

int64_t SlidingLog::GiveBack(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  if (edit.state.value == 0) return 0;
  charge.at = LogNow(scene, edit);
  std::span<const LogRun> live = Live(scene, edit);
  int64_t left = cost;
  while (left > 0 && !live.empty()) {
    const LogRun newest = live.back();
    live = live.first(live.size() - 1);
    ++edit.drop_newest;
    const int64_t back = std::min(left, newest.weight);
    left -= back;
    edit.state.value -= back;
    if (back < newest.weight) Append(newest.at, newest.weight - back, edit);
  }
  if (edit.append_count == 0) edit.state.stamp = live.empty() ? EngineTime{} : live.back().at;
  edit.write = true;
  charge.cost = left - cost;
  return cost - left;
}

bool SlidingLog::Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit) {
  if (delta > 0) return AddLate(scene, charge, delta, edit);
  const std::span<const LogRun> live = Live(scene, edit);
  const auto run = std::ranges::lower_bound(live, charge.at, {}, &LogRun::at);
  if (run == live.end() || run->at != charge.at) return false;
  const int64_t back = std::min(-delta, run->weight);
  if (back == 0) return false;
  Amend(scene, static_cast<size_t>(run - live.begin()), run->weight - back, edit);
  return false;
}

}  // namespace penstock::core
