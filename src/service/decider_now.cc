// The short way for engines that answer inline: one request, no receiver, nothing kept for later.
#include <limits>
#include <utility>

#include "service/decider_impl.h"
#include "service/request_check.h"

namespace penstock::service {

std::optional<Error> DeciderImpl::DecideNow(const Request& request, Decision& decision) {
  const bool counted = request.mode == engine::Mode::kCheck && !request.look;
  if (counted) counters_.totals.requests.Add(1);
  if (!IsPlain(request)) [[unlikely]] {
    if (Result<void> checked = CheckRequest(request); !checked) {
      counters_.totals.invalid.Add(1);
      return std::move(checked).error();
    }
  }
  Asked asked;
  for (int repeats = 0;; ++repeats) {  // ends: MayRepeat counts
    now_.batch.Clear();
    now_.policy = policy_.get();  // stays until we are done with the batch
    const Added added = AddRequest(now_, request, false, asked);
    now_.estimate.reset();
    if (added == Added::kWrong) [[unlikely]] {
      counters_.totals.invalid.Add(1);
      return std::move(error_);
    }
    if (added == Added::kNothing) [[unlikely]] {
      counters_.totals.unmatched.Add(1);
      SetUnlimited(decision);
      return std::nullopt;
    }
    session_.Decide(now_.batch, SteadyTime{std::numeric_limits<int64_t>::max()}, no_sink_);
    engine::Group& group = now_.batch.groups().front();
    const engine::GroupState state = group.result.state;
    if (state == engine::GroupState::kDecided) [[likely]] {
      ComposeGroup(asked.ad_hoc != nullptr ? &asked.ad_hoc->info : now_.policy->limits.data(), counted,
                   now_.batch, group, decision);
      return std::nullopt;
    }
    if (state == engine::GroupState::kConflict || state == engine::GroupState::kUnknownId) {
      return UndecidedError(group);
    }
    const bool stale = state == engine::GroupState::kStale || state == engine::GroupState::kStaleClock;
    const PolicyPointer held = policy_;  // the batch's, whatever MayRepeat fetches
    if (stale && MayRepeat(*now_.policy, repeats, state)) {
      if (state == engine::GroupState::kStaleClock) now_.estimate = group.result.now;
      continue;
    }
    ComposeGroup(asked.ad_hoc != nullptr ? &asked.ad_hoc->info : now_.policy->limits.data(), counted,
                 now_.batch, group, decision);
    return std::nullopt;
  }
}

}  // namespace penstock::service
