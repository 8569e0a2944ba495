// Permits: at most `capacity` units are held at once. `value` is what unexpired holders weigh, `stamp` the latest
// expiry of all that are still known, `before` the last fence. Before a decision the engine counts out what has expired
// by now, which is not a charge and stays done when the request is refused.
//
// A grant is charged as (cost = weight, window = fence, debt_before = expiry): what undoes it, and what a repeat is told.
// The fence is max(last + 1, engine microseconds): greater than every earlier one of the bucket, even after all of its
// keys have expired, as long as the engine's clock does not step back over the bucket's life.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/algorithm.h"

namespace penstock::core {

struct Permits {
  // What he is told who is refused only because others wait before him: there is no instant to tell.
  static constexpr Micros kBehindOthers = Millis(1);

  static constexpr bool kKeepsInstants = false;
  // Holders keep what they were granted; only the capacity changes.
  static bool SameMeaning(const LimitParams&, const LimitParams&) { return true; }
  static bool FadesAlike(const LimitParams&, const LimitParams&) { return true; }
  static bool Convert(const Scene&, const LimitParams&, BucketEdit&) { return false; }

  static void Advance(const Scene& scene, const LimitParams&, BucketEdit& edit) {
    if (scene.bucket.present) edit.state = scene.bucket.state;
  }

  static bool Fits(const Scene& scene, const BucketEdit& edit, int64_t cost) {
    if (edit.state.value > scene.params.capacity - cost) return false;
    return cost == 0 ||
           (scene.now >= scene.granted_from && !(scene.bucket.present && scene.bucket.overtakes));
  }
  // By expiries alone; an early release may let it pass sooner.
  static EngineTime FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost);
  static int64_t Available(const Scene& scene, const BucketEdit& edit) {
    return std::max<int64_t>(scene.params.capacity - edit.state.value, 0);
  }
  static EngineTime IdleAt(const LimitParams&, const BucketState& state) {
    return state.value == 0 ? EngineTime{} : state.stamp;
  }
  // Until when an expired holder may still be asked for.
  static EngineTime ForgottenAt(const LimitParams& params, const BucketState& state) {
    return state.stamp.us == 0 ? EngineTime{} : state.stamp + params.period;
  }

  static bool Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge);
  // Costs below 0 never reach a permit limit.
  static int64_t GiveBack(const Scene&, int64_t, BucketEdit&, Charge&) { return 0; }
  // delta < 0: the permit is given back; delta > 0: it was granted elsewhere, as the charge says, and is counted here
  // even beyond the capacity, once, and not where it has expired meanwhile.
  static bool Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit);

  static int64_t FenceOf(const Charge& charge) { return charge.window.us; }
  static EngineTime ExpiryOf(const Charge& charge) { return {charge.debt_before}; }
};

// The holder that a grant (PermitChange::kGrant) puts into the bucket.
inline Holder HolderOf(const Charge& charge, const Hash128& id) {
  return {id, Permits::ExpiryOf(charge), charge.cost, Permits::FenceOf(charge)};
}

}  // namespace penstock::core
