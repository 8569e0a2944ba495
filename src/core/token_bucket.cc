#include "core/token_bucket.h"

#include <algorithm>

namespace penstock::core {

// Whole tokens, a begun one counted whole: a change of parameters never forgets use. True when held at MaxDebt.
bool TokenBucket::Convert(const Scene& scene, const LimitParams& stored, BucketEdit& edit) {
  const int64_t tokens = CeilDiv(edit.state.value, stored.unit_cost);
  edit.state.value = 0;
  return AddDebt(scene.params, tokens, edit.state.value);
}

// What comes back is told in whole tokens, a begun one counted whole.
int64_t TokenBucket::GiveBack(const Scene& scene, int64_t tokens, BucketEdit& edit, Charge& charge) {
  if (edit.state.value == 0) return 0;
  const int64_t used = CeilDiv(edit.state.value, scene.params.unit_cost);
  const int64_t back = std::min(tokens, used);
  charge = {.at = edit.state.stamp, .debt_before = edit.state.value, .cost = -back};
  edit.state.value = std::max<int64_t>(0, edit.state.value - back * scene.params.unit_cost);
  edit.write = true;
  return back;
}

// Gives back only what has not drained away since: of the debt then and the charge, the charge drains last.
bool TokenBucket::Adjust(const Scene& scene, const Charge& charge, int64_t delta, BucketEdit& edit) {
  const LimitParams& params = scene.params;
  if (delta > 0) {
    edit.write = true;
    return AddDebt(params, delta, edit.state.value);
  }
  int64_t left = charge.debt_before;
  AddDebt(params, charge.cost, left);
  const int64_t elapsed =
      TickIndex(Later(edit.state.stamp, charge.at).us, params.tick) - TickIndex(charge.at.us, params.tick);
  left = std::max<int64_t>(0, left - BoundedProduct(params.drain, elapsed));
  left = std::min(left, BoundedProduct(-delta, params.unit_cost));
  const int64_t back = std::min(left, edit.state.value);
  if (back == 0) return false;
  edit.state.value -= back;
  edit.write = true;
  return false;
}

}  // namespace penstock::core
