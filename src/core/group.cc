#include "core/group.h"

#include <algorithm>

#include "core/algorithm.h"
#include "core/dispatch.h"

namespace penstock::core {
namespace {

bool IsFinite(const Limit& limit) {
  return limit.params.kind == RateKind::kFinite && limit.params.algorithm != Algorithm::kPermits;
}

bool OutsideBoundaries(const Operation& operation, EngineTime now) {
  const LimitParams& params = operation.limit->params;
  if (!IsFinite(*operation.limit) || params.algorithm != Algorithm::kFixedWindow ||
      !IsCalendar(params.window)) {
    return false;
  }
  const WindowBoundaries* const edges = operation.boundaries;
  return edges == nullptr || now < edges->previous || now >= edges->end_of_next;
}

GroupStatus CheckFresh(std::span<const Operation> operations, EngineTime now) {
  for (const Operation& operation : operations) {
    if (operation.bucket.present && operation.bucket.version > operation.limit->version) {
      return GroupStatus::kStale;
    }
  }
  for (const Operation& operation : operations) {
    if (OutsideBoundaries(operation, now)) return GroupStatus::kStaleBoundaries;
  }
  return GroupStatus::kDecided;
}

Scene SceneOf(const Operation& operation, EngineTime now) {
  return {operation.limit->params, now, operation.boundaries, operation.bucket};
}

// The bucket as of now, under the limit's parameters, in operation.edit.
template <class Rule>
void Open(Rule, const Scene& scene, Operation& operation) {
  operation.edit = {};
  operation.charge = {};
  operation.verdict = {.outcome = Outcome::kAllowed, .limit = scene.params.capacity};
  const BucketView& bucket = operation.bucket;
  if (!bucket.present) return Rule::Advance(scene, scene.params, operation.edit);
  Rule::Advance(scene, *bucket.params, operation.edit);
  if (bucket.version == operation.limit->version && bucket.version != 0) [[likely]]
    return;
  if (!(*bucket.params == scene.params)) {
    operation.verdict.saturated = Rule::Convert(scene, *bucket.params, operation.edit);
  }
  operation.edit.write = bucket.version < operation.limit->version;
}

// Outcome, retry_after and wait of `cost`.
template <class Rule>
void Judge(Rule, const Scene& scene, int64_t cost, const GroupOptions& options, Operation& operation) {
  if (options.force || cost < 0) return;
  Verdict& verdict = operation.verdict;
  if (cost > scene.params.capacity) {
    verdict.outcome = Outcome::kNever;
    return;
  }
  if (Rule::Fits(scene, operation.edit, cost)) [[likely]]
    return;
  Micros wait = Rule::FitsAt(scene, operation.edit, cost) - scene.now;
  if (scene.params.algorithm == Algorithm::kTokenBucket && !options.partial) {
    if (wait <= options.max_wait) {
      verdict.wait = wait;
      return;
    }
    wait = wait - options.max_wait;
  }
  verdict.outcome = Outcome::kDenied;
  verdict.retry_after = wait;
}

template <class Rule>
void Spend(Rule, const Scene& scene, int64_t cost, Operation& operation) {
  if (cost > 0) {
    operation.verdict.saturated |= Rule::Take(scene, cost, operation.edit, operation.charge);
    operation.verdict.taken = cost;
    operation.charge.version = operation.limit->version;
  } else if (cost < 0) {
    operation.verdict.taken = -Rule::GiveBack(scene, -cost, operation.edit, operation.charge);
    operation.charge.version = operation.limit->version;
  }
}

// What is left, and until when there is use.
template <class Rule>
void Tell(Rule, const Scene& scene, Operation& operation) {
  operation.verdict.remaining = Rule::Available(scene, operation.edit);
  const EngineTime idle_at = Rule::IdleAt(scene.params, operation.edit.state);
  operation.verdict.reset_after = idle_at > scene.now ? idle_at - scene.now : Micros{};
}

// A limit without a number: nothing is stored and nothing can be charged.
void JudgeWithoutNumber(Operation& operation) {
  operation.edit = {};
  operation.charge = {};
  operation.verdict = {};
  if (operation.limit->params.kind == RateKind::kUnlimited) {
    operation.verdict = {.outcome = Outcome::kAllowed, .limit = -1, .remaining = -1};
  } else if (operation.limit->params.kind == RateKind::kZero) {
    operation.verdict.outcome = Outcome::kNever;
  }
}

// What a partial request asks of a limit: the smallest of the costs and of what is there, over the unit, but at
// least 1, so that a limit without room refuses and says when it has room for one.
int64_t PartialCost(std::span<const Operation> operations, const Operation& asker, EngineTime now) {
  int64_t cost = asker.cost;
  for (const Operation& other : operations) {
    if (other.unit != asker.unit || other.cost <= 0 || other.limit->shadow) continue;
    cost = std::min(cost, other.cost);
    if (!IsFinite(*other.limit)) continue;
    cost = std::min(cost, Dispatch(other.limit->params.algorithm, [&](auto rule) {
                      return decltype(rule)::Available(SceneOf(other, now), other.edit);
                    }));
  }
  return std::max<int64_t>(cost, 1);
}

// One token bucket asked for a cost without options: most of all requests.
void DecideOne(Operation& operation, EngineTime now, const GroupOptions& options) {
  const Scene scene = SceneOf(operation, now);
  Open(TokenBucket{}, scene, operation);
  Judge(TokenBucket{}, scene, operation.cost, options, operation);
  if (operation.verdict.outcome == Outcome::kAllowed) Spend(TokenBucket{}, scene, operation.cost, operation);
  Tell(TokenBucket{}, scene, operation);
}

void DecideAll(std::span<Operation> operations, const GroupOptions& options, EngineTime now) {
  for (Operation& operation : operations) {
    if (!IsFinite(*operation.limit)) {
      JudgeWithoutNumber(operation);
      continue;
    }
    Dispatch(operation.limit->params.algorithm,
             [&](auto rule) { Open(rule, SceneOf(operation, now), operation); });
  }
  const bool partial = options.partial && !options.force;
  for (Operation& operation : operations) {
    const bool share = partial && operation.cost > 0;
    operation.verdict.taken = share ? PartialCost(operations, operation, now) : operation.cost;
    if (!IsFinite(*operation.limit)) continue;
    Dispatch(operation.limit->params.algorithm, [&](auto rule) {
      Judge(rule, SceneOf(operation, now), operation.verdict.taken, options, operation);
    });
  }
  const bool allowed = GroupOutcome(operations) == Outcome::kAllowed;
  for (Operation& operation : operations) {
    const bool spend = allowed && operation.verdict.outcome == Outcome::kAllowed;
    const int64_t cost = spend ? operation.verdict.taken : 0;
    operation.verdict.taken = 0;
    if (!spend) operation.verdict.wait = {};
    if (!IsFinite(*operation.limit)) {
      operation.verdict.taken = std::max<int64_t>(cost, 0);
      continue;
    }
    Dispatch(operation.limit->params.algorithm, [&](auto rule) {
      const Scene scene = SceneOf(operation, now);
      Spend(rule, scene, cost, operation);
      Tell(rule, scene, operation);
    });
  }
}

// Changes a charge under the parameters that the bucket was charged with, then looks at it under the limit's.
template <class Rule>
void Amend(Rule rule, const Charge& charge, int64_t delta, Operation& operation, EngineTime now) {
  const Scene scene = SceneOf(operation, now);
  Open(rule, scene, operation);
  const BucketView& bucket = operation.bucket;
  if (delta != 0) {
    if (bucket.present && Rule::kAdjustsBeforeConvert && !(*bucket.params == scene.params)) {
      const Scene stored{*bucket.params, now, operation.boundaries, bucket};
      const bool migrates = operation.edit.write;
      operation.edit = {};
      Rule::Advance(stored, *bucket.params, operation.edit);
      operation.verdict.saturated = Rule::Adjust(stored, charge, delta, operation.edit);
      operation.verdict.saturated |= Rule::Convert(scene, *bucket.params, operation.edit);
      operation.edit.write |= migrates;
    } else {
      operation.verdict.saturated |= Rule::Adjust(scene, charge, delta, operation.edit);
    }
  }
  Judge(rule, scene, 0, GroupOptions{}, operation);
  Tell(rule, scene, operation);
}

}  // namespace

GroupStatus DecideGroup(std::span<Operation> operations, const GroupOptions& options, EngineTime now) {
  const GroupStatus status = CheckFresh(operations, now);
  if (status != GroupStatus::kDecided) return status;
  if (operations.size() == 1 && !options.partial) [[likely]] {
    const LimitParams& params = operations[0].limit->params;
    if (params.algorithm == Algorithm::kTokenBucket && params.kind == RateKind::kFinite) [[likely]] {
      DecideOne(operations[0], now, options);
      return status;
    }
  }
  DecideAll(operations, options, now);
  return status;
}

Outcome GroupOutcome(std::span<const Operation> operations) {
  constexpr auto severity = [](Outcome outcome) {
    switch (outcome) {
      case Outcome::kAllowed:
        return 0;
      case Outcome::kUnavailable:
        return 1;
      case Outcome::kDenied:
        return 2;
      case Outcome::kNever:
        return 3;
    }
    return 1;
  };
  Outcome worst = Outcome::kAllowed;
  for (const Operation& operation : operations) {
    if (operation.limit->shadow || operation.skipped) continue;
    if (severity(operation.verdict.outcome) > severity(worst)) worst = operation.verdict.outcome;
  }
  return worst;
}

void AdjustCharge(Operation& operation, const Charge& charge, int64_t delta, EngineTime now) {
  JudgeWithoutNumber(operation);
  operation.charge = charge;
  const BucketView& bucket = operation.bucket;
  if (!IsFinite(*operation.limit)) return;
  if (bucket.present && bucket.version > operation.limit->version) return;
  const int64_t change = std::max(delta, -std::max<int64_t>(charge.cost, 0));
  const bool lost = change < 0 && bucket.present && bucket.version > charge.version;
  Dispatch(operation.limit->params.algorithm,
           [&](auto rule) { Amend(rule, charge, lost ? 0 : change, operation, now); });
  operation.charge = charge;
  operation.charge.cost += change;
}

EngineTime IdleAt(const LimitParams& params, const BucketState& state) {
  return Dispatch(params.algorithm, [&](auto rule) { return decltype(rule)::IdleAt(params, state); });
}

}  // namespace penstock::core
