#include "service/failover/local_use.h"

#include <algorithm>

#include "core/permits.h"
#include "core/ticks.h"
#include "core/token_bucket.h"
#include "penstock/request.h"

namespace penstock::service {
namespace {

__extension__ using Wide = __int128;

int64_t CeilPart(int64_t whole, uint32_t nodes) { return core::CeilDiv(whole, nodes); }

int64_t Drained(const core::LimitParams& params, int64_t debt, EngineTime from, EngineTime to) {
  if (to <= from) return debt;
  const int64_t ticks = core::TickIndex(to.us, params.tick) - core::TickIndex(from.us, params.tick);
  return std::max<int64_t>(0, debt - core::BoundedProduct(params.drain, ticks));
}

int64_t Cost(int64_t units) { return std::min(units, kMaxCost); }

// Exact to one tick's drain: whole tokens are charged, and of the last one what is too much is taken back as what is
// left of a token that was charged so long ago.
Adjustments SeedBucket(const core::LimitParams& share, const SeenUse& seen, uint32_t nodes, EngineTime now) {
  Adjustments plan;
  const Wide exact = (static_cast<Wide>(seen.used) * share.unit_cost + nodes - 1) / nodes;
  const int64_t whole = exact > core::kMaxExact ? core::kMaxExact : static_cast<int64_t>(exact);
  const int64_t debt = Drained(share, whole, seen.stamp, now);
  if (debt == 0) return plan;
  const int64_t tokens = Cost(core::CeilDiv(debt, share.unit_cost));
  plan.Add({}, tokens);
  const int64_t excess = tokens * share.unit_cost - debt;
  if (excess <= 0) return plan;
  const int64_t ticks = core::CeilDiv(share.unit_cost - excess, share.drain);
  plan.Add({.at = {(core::TickIndex(now.us, share.tick) - ticks) * share.tick.count}, .cost = 1}, -1);
  return plan;
}

Adjustments SeedSliding(const core::LimitParams& share, const SeenUse& seen, uint32_t nodes, EngineTime now) {
  Adjustments plan;
  const EngineTime current{now.us / share.period.count * share.period.count};
  const EngineTime window = std::min(seen.stamp, current);  // our estimate of the time may be a little late
  if (seen.before > 0) plan.Add({.window = window - share.period}, Cost(CeilPart(seen.before, nodes)));
  if (seen.used > 0) plan.Add({.window = window}, Cost(CeilPart(seen.used, nodes)));
  return plan;
}

// What the state has in a sliding window.
int64_t UseIn(const core::BucketState& state, EngineTime window, Micros period) {
  if (window == state.stamp) return state.value;
  return window + period == state.stamp ? state.before : 0;
}

}  // namespace

Adjustments SeedOf(const core::LimitParams& share, const SeenUse& seen, uint32_t nodes, EngineTime now) {
  Adjustments plan;
  switch (share.algorithm) {
    case core::Algorithm::kTokenBucket:
      return SeedBucket(share, seen, nodes, now);
    case core::Algorithm::kSlidingWindow:
      return SeedSliding(share, seen, nodes, now);
    case core::Algorithm::kFixedWindow:
      plan.Add({.window = seen.stamp}, Cost(CeilPart(seen.used, nodes)));
      break;
    case core::Algorithm::kSlidingLog:
      plan.Add({.at = seen.stamp}, Cost(CeilPart(seen.used, nodes)));
      break;
    case core::Algorithm::kPermits:
      // One holder for all that were seen, until the last of them must have gone. It is nobody's: its id is not random.
      plan.Add({.at = now, .window = now, .debt_before = seen.stamp.us}, Cost(CeilPart(seen.used, nodes)),
               {.id = {0, static_cast<uint64_t>(now.us)}});
      break;
  }
  return plan;
}

void LocalUse::Change(const core::LimitParams& share, EngineTime now) {
  if (share.algorithm == core::Algorithm::kTokenBucket && !core::TokenBucket::SameMeaning(params_, share)) {
    const int64_t left = Drained(params_, known_.value, known_.stamp, now);
    const int64_t tokens = core::CeilDiv(left, params_.unit_cost);
    known_ = {.stamp = now, .value = core::BoundedProduct(tokens, share.unit_cost)};
  }
  params_ = share;
}

void LocalUse::Note(const core::LimitParams& share, const core::Charge& charge) {
  if (share.algorithm != core::Algorithm::kSlidingLog || charge.cost == 0) return;
  if (charge.cost < 0) {  // a refund takes from the newest
    int64_t back = -charge.cost;
    while (back > 0 && !runs_.empty()) {
      const int64_t taken = std::min(back, runs_.back().weight);
      back -= taken;
      runs_.back().weight -= taken;
      if (runs_.back().weight == 0) runs_.pop_back();
    }
    return;
  }
  if (!runs_.empty() && runs_.back().at >= charge.at) {
    runs_.back().weight += charge.cost;
    return;
  }
  Forget(charge.at - share.period);
  if (runs_.size() == kMaxRuns) {  // the closest neighbours lose the least
    size_t closest = 1;
    for (size_t i = 2; i < runs_.size(); ++i) {
      if (runs_[i].at - runs_[i - 1].at < runs_[closest].at - runs_[closest - 1].at) closest = i;
    }
    runs_[closest].weight += runs_[closest - 1].weight;
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(closest) - 1);
  }
  runs_.push_back({charge.at, charge.cost});
}

void LocalUse::Forget(EngineTime before) {
  std::erase_if(runs_, [before](const core::LogRun& run) { return run.at <= before; });
}

Adjustments LocalUse::Owed(const core::LimitParams& share, const core::BucketState& state, EngineTime now) {
  Adjustments owed;
  const auto add = [&owed](const core::Charge& charge, int64_t units) {
    if (units > 0) owed.Add(charge, Cost(units));
  };
  switch (share.algorithm) {
    case core::Algorithm::kTokenBucket: {
      const int64_t known = Drained(params_, known_.value, known_.stamp, state.stamp);
      add({.at = state.stamp}, core::CeilDiv(std::max<int64_t>(0, state.value - known), share.unit_cost));
      break;
    }
    case core::Algorithm::kFixedWindow:
      if (state.stamp > now) {
        add({.at = now, .window = state.stamp},
            state.value - (known_.stamp == state.stamp ? known_.value : 0));
      }
      break;
    case core::Algorithm::kSlidingWindow: {
      const EngineTime before = state.stamp - share.period;
      add({.at = now, .window = before}, state.before - UseIn(known_, before, share.period));
      add({.at = now, .window = state.stamp}, state.value - UseIn(known_, state.stamp, share.period));
      break;
    }
    case core::Algorithm::kSlidingLog:
      Forget(now - share.period);
      for (const core::LogRun& run : runs_) {
        if (owed.count == owed.items.size()) break;
        add({.at = run.at}, run.weight);
      }
      break;
    case core::Algorithm::kPermits:
      std::erase_if(permits_, [now](const OwedPermit& permit) {
        return core::Permits::ExpiryOf(permit.charge) <= now;
      });
      for (const OwedPermit& permit : permits_) {
        if (owed.count == owed.items.size()) break;
        core::Charge charge = permit.charge;
        charge.cost = 0;
        owed.Add(charge, permit.charge.cost, {.id = permit.id, .holder = permit.holder});
      }
      break;
  }
  return owed;
}

void LocalUse::Told(const core::LimitParams& share, const core::BucketState& state, const Adjustment& told) {
  switch (share.algorithm) {
    case core::Algorithm::kTokenBucket: {
      const int64_t more = core::BoundedProduct(told.cost, params_.unit_cost);
      if (core::TokenBucket::SameMeaning(params_, share)) {
        const int64_t known = Drained(params_, known_.value, known_.stamp, state.stamp);
        known_ = {.stamp = state.stamp, .value = std::min(state.value, known + more)};
      } else {  // the share changed while the report was under way
        known_.value += more;
      }
      break;
    }
    case core::Algorithm::kFixedWindow:
      if (known_.stamp != told.charge.window) known_ = {.stamp = told.charge.window};
      known_.value += told.cost;
      break;
    case core::Algorithm::kSlidingWindow: {
      const int64_t value = UseIn(known_, state.stamp, share.period);
      const int64_t before = UseIn(known_, state.stamp - share.period, share.period);
      known_ = {.stamp = state.stamp, .value = value, .before = before};
      (told.charge.window == state.stamp ? known_.value : known_.before) += told.cost;
      break;
    }
    case core::Algorithm::kSlidingLog:
      for (core::LogRun& run : runs_) {
        if (run.at < told.charge.at) continue;  // or the later one that it was put together with
        run.weight -= std::min(run.weight, told.cost);
        break;
      }
      std::erase_if(runs_, [](const core::LogRun& run) { return run.weight == 0; });
      break;
    case core::Algorithm::kPermits:
      ForgetPermit(told.permit.id);
      break;
  }
}

void LocalUse::NotePermit(const core::PermitAsk& ask, const core::Charge& charge) {
  permits_.push_back({ask.id, charge, std::string(ask.holder)});
}

bool LocalUse::OwesPermit(const Hash128& id) const {
  return std::any_of(permits_.begin(), permits_.end(), [&](const OwedPermit& p) { return p.id == id; });
}

void LocalUse::ForgetPermit(const Hash128& id) {
  std::erase_if(permits_, [&](const OwedPermit& permit) { return permit.id == id; });
}

void LocalUse::RenewPermit(const Hash128& id, EngineTime expires_at) {
  for (OwedPermit& permit : permits_) {
    if (permit.id == id) permit.charge.debt_before = expires_at.us;
  }
}

}  // namespace penstock::service
