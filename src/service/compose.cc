#include "service/compose.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/group.h"
#include "core/permits.h"
#include "engine/permit_id.h"

namespace penstock::service {
namespace {

using std::chrono::microseconds;

constexpr int64_t kUnlimited = -1;

// Unlimited compares as more than any number.
constexpr uint64_t Rank(int64_t amount) { return static_cast<uint64_t>(amount); }
static_assert(Rank(kUnlimited) > Rank(std::numeric_limits<int64_t>::max()));

int64_t Capacity(const core::LimitParams& params) {
  return params.kind == core::RateKind::kUnlimited ? kUnlimited : params.capacity;
}

bool AllowsUnasked(const core::Limit& limit, Reason reason, OnFull on_full) {
  switch (limit.on_failure) {
    case core::OnFailure::kAllow:
      return true;
    case core::OnFailure::kDeny:
      return false;
    case core::OnFailure::kLocal:
      return reason == Reason::kFull && on_full == OnFull::kAllow;
  }
  return false;
}

// `degraded`: a verdict, where there is one, was found without the engine.
void Fill(const core::Operation& operation, const LimitInfo& info, bool asked, bool degraded,
          LimitDecision& out) {
  const core::Limit& limit = *operation.limit;
  const core::Verdict& verdict = operation.verdict;
  out.name = info.name;
  out.unit = info.unit;
  out.window = info.window;
  out.shadow = limit.shadow;
  out.fence = 0;
  out.expires_in = microseconds(0);
  if (!asked || verdict.outcome == Outcome::kUnavailable) [[unlikely]] {
    out.limit = Capacity(limit.params);
    out.remaining = out.limit == kUnlimited ? kUnlimited : 0;
    out.taken = 0;
    out.retry_after = microseconds(0);
    out.reset_after = microseconds(0);
    out.outcome = Outcome::kUnavailable;
    out.saturated = false;
    out.degraded = true;
    return;
  }
  out.limit = verdict.limit;
  out.remaining = verdict.remaining;
  out.taken = verdict.taken;
  out.retry_after = microseconds(verdict.retry_after.count);
  out.reset_after = microseconds(verdict.reset_after.count);
  out.outcome = verdict.outcome;
  out.saturated = verdict.saturated;
  out.degraded = degraded;
}

void Count(const core::Operation& operation, const LimitDecision& part, LimitCounters& counters) {
  if (operation.cost == 0) return;  // a peek decides nothing
  const auto outcome = static_cast<size_t>(part.outcome);
  if (part.shadow) [[unlikely]] {
    counters.shadow[outcome].Add(1);
  } else {
    (part.degraded ? counters.degraded : counters.outcomes)[outcome].Add(1);
  }
  if (part.saturated) [[unlikely]]
    counters.saturated.Add(1);
}

void AddTaken(const LimitDecision& limit, std::vector<TakenUnit>& taken) {
  // All enforced limits of one unit took the same, but each gives back only what it has: said is what came back
  // everywhere.
  for (TakenUnit& unit : taken) {
    if (unit.unit != limit.unit) continue;
    if (std::abs(limit.taken) < std::abs(unit.taken)) unit.taken = limit.taken;
    return;
  }
  taken.push_back({limit.unit, limit.taken});
}

// One permit over all limits that granted: what is left of the earliest lease, since it is lost with the first of them.
void SetPermit(const ComposeInput& input, Decision& decision) {
  PermitGrant grant{};
  grant.waited = microseconds(input.waited.count);
  size_t part = 0;  // in decision.limits
  size_t holding = 0;
  size_t enforced = 0;
  for (const core::Operation& operation : input.operations) {
    if (operation.skipped) continue;
    LimitDecision& limit = decision.limits[part++];
    if (!engine::Holds(operation)) continue;
    limit.fence = core::Permits::FenceOf(operation.charge);
    const Micros left = core::Permits::ExpiryOf(operation.charge) - input.result->now;
    limit.expires_in = microseconds(std::max<int64_t>(left.count, 0));
    grant.expires_in = holding++ == 0 ? limit.expires_in : std::min(grant.expires_in, limit.expires_in);
    if (limit.shadow) continue;
    grant.fence = enforced++ == 0 ? std::optional(limit.fence) : std::nullopt;
  }
  if (holding == 0) return;
  grant.id = engine::ToText(engine::GrantedPermit(input.operations, *input.result));
  decision.permit = grant;
  if (input.counters != nullptr) input.counters->totals.permits_granted.Add(1);
}

void SetTop(const LimitDecision& top, Decision& decision) {
  decision.outcome = top.outcome;
  decision.reset_after = top.reset_after;
  switch (top.outcome) {
    case Outcome::kAllowed:
      decision.retry_after = microseconds(0);
      break;
    case Outcome::kDenied:
      decision.retry_after = top.retry_after;
      break;
    case Outcome::kNever:
    case Outcome::kUnavailable:
      decision.retry_after.reset();
      break;
  }
  if (top.limit == kUnlimited) return;
  decision.limit = top.limit;
  if (top.outcome != Outcome::kUnavailable) decision.remaining = top.remaining;  // else nobody knows
}

}  // namespace

void SetUnlimited(Decision& decision) {
  decision.allowed = true;
  decision.outcome = Outcome::kAllowed;
  decision.degraded = false;
  decision.replayed = false;
  decision.replayable = true;
  decision.saturated = false;
  decision.reason = Reason::kNone;
  decision.limit.reset();
  decision.remaining.reset();
  decision.retry_after = microseconds(0);
  decision.reset_after = microseconds(0);
  decision.wait = microseconds(0);
  decision.limits.Clear();
  decision.permit.reset();
  decision.taken.clear();
  decision.error.reset();
}

bool Decides(const LimitDecision& a, const LimitDecision& b) {
  if (a.outcome != b.outcome) return core::Severity(a.outcome) > core::Severity(b.outcome);
  if (a.outcome != Outcome::kAllowed && a.retry_after != b.retry_after) return a.retry_after > b.retry_after;
  if (a.remaining != b.remaining) return Rank(a.remaining) < Rank(b.remaining);
  return Rank(a.limit) < Rank(b.limit);
}

void Compose(const ComposeInput& input, Decision& decision) {
  SetUnlimited(decision);
  const engine::GroupResult& result = *input.result;
  const bool asked = result.state == engine::GroupState::kDecided;
  decision.replayed = result.replayed;
  decision.replayable = result.replayable;
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t top = kNone;
  bool allowed = true;
  bool saturated = false;
  bool holds = false;
  int64_t wait_us = 0;
  for (const core::Operation& operation : input.operations) {
    if (operation.skipped) continue;
    const core::Limit& limit = *operation.limit;
    const size_t index = decision.limits.size();
    LimitDecision& part = decision.limits.Append();
    const LimitInfo& info = input.infos[limit.number];
    Fill(operation, info, asked, result.degraded, part);
    if (input.counters != nullptr) Count(operation, part, input.counters->At(info.slot));
    holds |= core::GrantsPermit(operation);
    if (part.shadow) continue;
    if (part.degraded) [[unlikely]] {
      decision.degraded = true;
      decision.reason = result.reason;
    }
    if (part.outcome == Outcome::kUnavailable) [[unlikely]] {
      allowed &= AllowsUnasked(limit, result.reason, input.on_full);
    } else {
      allowed &= part.outcome == Outcome::kAllowed;
      saturated |= part.saturated;
      wait_us = std::max(wait_us, operation.verdict.wait.count);
      if (input.partial) [[unlikely]]
        AddTaken(part, decision.taken);
    }
    if (top == kNone || Decides(part, decision.limits[top])) top = index;
  }
  if (decision.degraded && input.counters != nullptr) [[unlikely]]
    input.counters->totals.degraded[static_cast<size_t>(result.reason)].Add(1);
  if (holds && asked) [[unlikely]]
    SetPermit(input, decision);
  if (top == kNone) return;  // only shadow limits
  decision.allowed = allowed;
  decision.saturated = saturated;
  decision.wait = microseconds(wait_us);
  SetTop(decision.limits[top], decision);
}

}  // namespace penstock::service
