// The short way of the most common request: one token bucket, a positive cost, no options. It is DecideGroup's own
// rules put together without what such a request cannot need (edit, charge, conversion), so that an engine which
// keeps its buckets in memory decides without writing 200 bytes that nobody reads. plain_bucket_test.cc shows that
// both ways always agree.
#pragma once

#include <algorithm>

#include "core/group.h"
#include "core/operation.h"
#include "core/token_bucket.h"

namespace penstock::core {

// Whether a request with these options may go the short way. Beside it: one operation, whose charge nobody needs, and
// a bucket that is absent or was written under the limit's own parameters and version.
inline bool IsPlain(const LimitParams& params, const GroupOptions& options, int64_t cost) {
  return params.algorithm == Algorithm::kTokenBucket && params.kind == RateKind::kFinite && cost > 0 &&
         options.max_wait.count == 0 && !options.force && !options.partial && !options.dry;
}

// Decides by the bucket's state and fills the verdict. True: the cost was charged, and `state` is to be stored.
// Precondition: IsPlain.
[[gnu::always_inline]] inline bool DecidePlain(const LimitParams& params, bool present, int64_t cost,
                                               EngineTime now, BucketState& state, Verdict& verdict) {
  const BucketView view{.present = present, .params = &params, .state = state};
  const Scene scene{params, now, nullptr, view};
  BucketEdit edit;
  TokenBucket::Advance(scene, params, edit);
  verdict = {.outcome = Outcome::kAllowed, .limit = params.capacity};
  if (cost > params.capacity) [[unlikely]] {
    verdict.outcome = Outcome::kNever;
  } else if (TokenBucket::Fits(scene, edit, cost)) {
    Charge charge;
    verdict.saturated = TokenBucket::Take(scene, cost, edit, charge);
    verdict.taken = cost;
  } else {
    verdict.outcome = Outcome::kDenied;
    verdict.retry_after = TokenBucket::FitsAt(scene, edit, cost) - now;
  }
  verdict.remaining = TokenBucket::Available(scene, edit);
  verdict.reset_after = std::max(TokenBucket::IdleAt(params, edit.state) - now, Micros{});
  state = edit.state;
  return edit.write;
}

}  // namespace penstock::core
