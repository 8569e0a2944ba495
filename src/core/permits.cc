#include "core/permits.h"

#include "core/ticks.h"

namespace penstock::core {

EngineTime Permits::FitsAt(const Scene& scene, const BucketEdit& edit, int64_t cost) {
  const EngineTime soonest = Later(scene.now + kBehindOthers, scene.granted_from);
  int64_t excess = edit.state.value - (scene.params.capacity - cost);
  const Holder* holder = nullptr;
  while (excess > 0 && scene.bucket.holders != nullptr) {
    const Holder* const next = scene.bucket.holders->Next(holder);
    if (next == nullptr) break;
    holder = next;
    excess -= holder->weight;
  }
  if (excess > 0) return Later(soonest, edit.state.stamp);
  return holder == nullptr ? soonest : Later(holder->expires_at, scene.granted_from);
}

bool Permits::Take(const Scene& scene, int64_t cost, BucketEdit& edit, Charge& charge) {
  const Micros lease =
      LeaseUnder(scene.params.period, scene.permit == nullptr ? Micros{} : scene.permit->lease);
  const EngineTime expires_at = scene.now + lease;
  edit.state.before = std::max(edit.state.before + 1, scene.now.us);
  edit.state.value += cost;
  edit.state.stamp = Later(edit.state.stamp, expires_at);
  edit.permit = PermitChange::kGrant;
  edit.write = true;
  charge = {.at = scene.now, .window = {edit.state.before}, .debt_before = expires_at.us, .cost = cost};
  return false;
}

bool Permits::Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit) {
  if (delta == 0) return false;
  const Holder* const own = scene.bucket.present ? scene.bucket.own : nullptr;
  const bool held = own != nullptr && own->expires_at > scene.now;
  if (delta < 0) {
    if (!held) return false;
    edit.write = true;
    edit.permit = PermitChange::kRelease;
    edit.state.value -= own->weight;
    return false;
  }
  if (held || ExpiryOf(charge) <= scene.now) return false;
  edit.write = true;
  edit.permit = PermitChange::kGrant;
  edit.state.value += delta;
  edit.state.before = std::max(edit.state.before, FenceOf(charge));
  edit.state.stamp = Later(edit.state.stamp, ExpiryOf(charge));
  return false;
}

}  // namespace penstock::core
