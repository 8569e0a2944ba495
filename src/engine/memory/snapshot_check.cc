#include "engine/memory/snapshot_check.h"

#include <algorithm>

#include "core/group.h"
#include "core/sliding_window.h"
#include "engine/memory/slot_table.h"
#include "penstock/request.h"

namespace penstock::engine::snapshot {

bool Valid(const core::LimitParams& params) {
  core::RateSpec spec;
  spec.algorithm = params.algorithm;
  spec.window = params.window;
  spec.count = params.count;
  spec.period = params.period;
  if (params.algorithm == core::Algorithm::kTokenBucket) spec.burst = params.capacity;
  const Result<core::LimitParams> compiled = core::CompileRate(spec);
  return compiled && *compiled == params;
}

namespace {

// Of one entry: a bucket with many holders has several.
bool ValidHolders(const Bucket& bucket) {
  int64_t sum = 0;
  EngineTime latest{};
  for (const KnownHolder& known : bucket.holders) {
    const core::Holder& holder = known.holder;
    if (!InRange(holder.expires_at.us, 0, Slot::kMaxField) || !InRange(holder.weight, 1, kMaxCost) ||
        !InRange(holder.fence, 0, bucket.state.before) || known.name.size() > kMaxHolderBytes) {
      return false;
    }
    sum += holder.weight;
    latest = std::max(latest, holder.expires_at);
  }
  return sum == bucket.state.value && latest == bucket.state.stamp;
}

}  // namespace

bool Valid(const core::LimitParams& params, const Bucket& bucket) {
  const core::BucketState& state = bucket.state;
  if (bucket.name.high == 0 || !InRange(state.stamp.us, 0, Slot::kMaxField)) return false;
  const int64_t most = params.algorithm == core::Algorithm::kSlidingWindow
                           ? core::SlidingWindow::MaxUse(params)
                           : core::kMaxExact;
  if (!InRange(state.value, 0, most) || !InRange(state.before, 0, most)) return false;
  if (params.algorithm == core::Algorithm::kSlidingWindow) return state.stamp.us % params.period.count == 0;
  if (params.algorithm == core::Algorithm::kPermits) return ValidHolders(bucket);
  if (params.algorithm != core::Algorithm::kSlidingLog) return true;
  int64_t sum = 0;
  EngineTime at{};
  for (const core::LogRun& run : bucket.runs) {
    if (run.at < at || !InRange(run.weight, 1, core::kMaxExact - sum)) return false;
    sum += run.weight;
    at = run.at;
  }
  return sum == state.value && at <= state.stamp;
}

void ClampToNow(const core::LimitParams& params, EngineTime now, Bucket& bucket) {
  EngineTime& stamp = bucket.state.stamp;
  const int64_t period = params.period.count;
  switch (params.algorithm) {
    case core::Algorithm::kTokenBucket:
      stamp = std::min(stamp, now);
      return;
    case core::Algorithm::kPermits:
      stamp = std::min(stamp, now + params.period);
      for (KnownHolder& known : bucket.holders) {
        known.holder.expires_at = std::min(known.holder.expires_at, now + params.period);
      }
      return;
    case core::Algorithm::kFixedWindow:
      if (params.window == core::WindowKind::kEpoch) {
        stamp = std::min(stamp, EngineTime{(now.us / period + 1) * period});
      } else if (params.window == core::WindowKind::kFirstRequest) {
        stamp = std::min(stamp, now + params.period);
      } else if (stamp > now + params.period *
                                   2) {  // a calendar's edges are not known here; they are near its length
        stamp = now + params.period;
      }
      return;
    case core::Algorithm::kSlidingWindow:
      stamp = std::min(stamp, EngineTime{now.us / period * period});
      return;
    case core::Algorithm::kSlidingLog:
      stamp = std::min(stamp, now);
      for (core::LogRun& run : bucket.runs) run.at = std::min(run.at, now);
      return;
  }
}

bool IsIdle(const core::LimitParams& params, EngineTime now, const Bucket& bucket) {
  if (core::IdleAt(params, bucket.state) > now) return false;
  return params.algorithm != core::Algorithm::kPermits || bucket.state.before < now.us;
}

}  // namespace penstock::engine::snapshot
