#include "core/group.h"

#include <algorithm>

#include "core/algorithm.h"
#include "core/dispatch.h"

namespace penstock::core {
namespace {

bool IsFinite(const Limit& limit) { return limit.params.kind == RateKind::kFinite; }

// The bucket remembers newer parameters than the operation brings.
bool IsStale(const Operation& operation) {
  return operation.bucket.present && operation.bucket.version > operation.limit->version;
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
    if (IsStale(operation)) return GroupStatus::kStale;
  }
  for (const Operation& operation : operations) {
    if (OutsideBoundaries(operation, now)) return GroupStatus::kStaleBoundaries;
  }
  return GroupStatus::kDecided;
}

Scene SceneOf(const Operation& operation, EngineTime now, const PermitAsk* permit = nullptr) {
  const EngineTime granted_from = operation.limit->strict ? operation.granted_from : EngineTime{};
  return {operation.limit->params, now, operation.boundaries, operation.bucket, permit, granted_from};
}

// Whether an ad hoc bucket was written under other parameters than this caller's. These count once a charge is
// written; until then the bucket goes on by its own, so a stated wait must be by its own too (rule E3). A caller who
// reserves ahead is told how he will fare, charged.
template <class Rule>
bool IsDeferred(Rule, const Operation& operation, const GroupOptions& options) {
  if (!operation.bucket.present || operation.limit->version != 0) return false;
  if (Rule::FadesAlike(*operation.bucket.params, operation.limit->params)) [[likely]]
    return false;
  return operation.limit->params.algorithm != Algorithm::kTokenBucket || options.partial ||
         options.max_wait.count == 0;
}

// The bucket as it is while nobody is charged: its own use and time, this caller's capacity.
template <class Rule, class Look>
EngineTime Meanwhile(Rule, const Scene& scene, Look&& look) {
  LimitParams params = *scene.bucket.params;
  params.capacity = scene.params.capacity;
  if (Rule::kKeepsInstants) params.period = std::min(params.period, scene.params.period);
  const Scene own{params, scene.now, scene.boundaries, scene.bucket};
  BucketEdit edit;
  Rule::Advance(own, params, edit);
  return look(own, edit);
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
  if (!Rule::SameMeaning(*bucket.params, scene.params)) {
    operation.verdict.saturated = Rule::Convert(scene, *bucket.params, operation.edit);
  }
  operation.edit.write = bucket.version < operation.limit->version;
}

// Outcome, retry_after and wait of `cost`.
template <class Rule>
void Judge(Rule rule, const Scene& scene, int64_t cost, const GroupOptions& options, bool deferred,
           Operation& operation) {
  if (options.force || cost < 0) return;
  Verdict& verdict = operation.verdict;
  if (cost > scene.params.capacity) {
    verdict.outcome = Outcome::kNever;
    return;
  }
  if (Rule::Fits(scene, operation.edit, cost)) [[likely]]
    return;
  const auto fits_at = [cost](const Scene& own, const BucketEdit& edit) {
    return Rule::FitsAt(own, edit, cost);
  };
  const EngineTime at = deferred ? Meanwhile(rule, scene, fits_at) : fits_at(scene, operation.edit);
  Micros wait = at - scene.now;
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
  if (cost == 0) return;
  Verdict& verdict = operation.verdict;
  if (cost > 0) {
    verdict.saturated |= Rule::Take(scene, cost, operation.edit, operation.charge);
    verdict.taken = cost;
  } else {
    verdict.taken = -Rule::GiveBack(scene, -cost, operation.edit, operation.charge);
  }
  operation.charge.version = operation.limit->version;
}

// What is left, and until when there is use.
template <class Rule>
void Tell(Rule rule, const Scene& scene, bool deferred, Operation& operation) {
  operation.verdict.remaining = Rule::Available(scene, operation.edit);
  const auto idle_at = [](const Scene& own, const BucketEdit& edit) {
    return Rule::IdleAt(own.params, edit.state);
  };
  const EngineTime at = deferred ? Meanwhile(rule, scene, idle_at) : idle_at(scene, operation.edit);
  operation.verdict.reset_after = std::max(at - scene.now, Micros{});
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

// The first limit whose queue the asker may stand in.
Operation* WhereToQueue(std::span<Operation> operations, const GroupOptions& options) {
  if (options.dry || options.permit == nullptr || options.permit->queue_for.count <= 0) return nullptr;
  if (!PermitsAloneRefuse(operations)) return nullptr;
  for (Operation& operation : operations) {
    if (!operation.limit->shadow && operation.verdict.outcome != Outcome::kAllowed) return &operation;
  }
  return nullptr;
}

// Who stands in a queue keeps his place in it, and nobody stands in two.
void Queue(Operation& operation, bool here, const GroupOptions& options) {
  BucketEdit& edit = operation.edit;
  if (here) {
    edit.permit = PermitChange::kQueue;
    edit.write = operation.verdict.queued = true;
  } else if (operation.bucket.present && operation.bucket.waits && !options.dry) {
    if (edit.permit == PermitChange::kNone) edit.permit = PermitChange::kLeave;
    edit.write = true;
  }
}

// One token bucket: most of all requests. Flattened, because it is shorter than its calls would be.
[[gnu::flatten]] void DecideOne(Operation& operation, EngineTime now, const GroupOptions& options) {
  constexpr TokenBucket kRule;
  const Scene scene = SceneOf(operation, now);
  Open(kRule, scene, operation);
  Judge(kRule, scene, operation.cost, options, false, operation);
  if (operation.verdict.outcome == Outcome::kAllowed) Spend(kRule, scene, operation.cost, operation);
  Tell(kRule, scene, false, operation);
}

void DecideAll(std::span<Operation> operations, const GroupOptions& options, EngineTime now) {
  const bool partial = options.partial && !options.force;
  for (Operation& operation : operations) {
    if (!IsFinite(*operation.limit)) {
      JudgeWithoutNumber(operation);
      continue;
    }
    Dispatch(operation.limit->params.algorithm,
             [&](auto rule) { Open(rule, SceneOf(operation, now), operation); });
  }
  for (Operation& operation : operations) {
    const bool share = partial && operation.cost > 0 && !IsPermits(*operation.limit);
    const int64_t cost = share ? PartialCost(operations, operation, now) : operation.cost;
    operation.verdict.taken = cost;  // what it will take, if all are allowed
    if (!IsFinite(*operation.limit)) continue;
    Dispatch(operation.limit->params.algorithm, [&](auto rule) {
      const bool deferred = IsDeferred(rule, operation, options);
      Judge(rule, SceneOf(operation, now), cost, options, deferred, operation);
    });
  }
  const bool allowed = !options.dry && GroupOutcome(operations) == Outcome::kAllowed;
  Operation* const line = allowed ? nullptr : WhereToQueue(operations, options);
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
      const Scene scene = SceneOf(operation, now, options.permit);
      Spend(rule, scene, cost, operation);
      if (IsPermits(*operation.limit)) Queue(operation, &operation == line, options);
      const bool deferred = operation.verdict.taken == 0 && IsDeferred(rule, operation, options);
      Tell(rule, scene, deferred, operation);
    });
  }
}

// Changes a charge under the parameters that the bucket was charged with, then looks at it under the limit's.
template <class Rule>
void Amend(Rule rule, const Charge& charge, int64_t delta, Operation& operation, EngineTime now,
           const PermitAsk* permit) {
  const Scene scene = SceneOf(operation, now, permit);
  Open(rule, scene, operation);
  const BucketView& bucket = operation.bucket;
  Verdict& verdict = operation.verdict;
  if (bucket.present && !Rule::kKeepsInstants && !Rule::SameMeaning(*bucket.params, scene.params)) {
    const Scene stored{*bucket.params, now, operation.boundaries, bucket};
    const bool migrates = operation.edit.write;
    operation.edit = {};
    Rule::Advance(stored, *bucket.params, operation.edit);
    verdict.saturated = Rule::Adjust(stored, charge, delta, operation.edit);
    verdict.saturated |= Rule::Convert(scene, *bucket.params, operation.edit);
    operation.edit.write |= migrates;
  } else {
    verdict.saturated |= Rule::Adjust(scene, charge, delta, operation.edit);
  }
  Judge(rule, scene, 0, GroupOptions{}, false, operation);
  Tell(rule, scene, false, operation);
}

}  // namespace

GroupStatus DecideGroup(std::span<Operation> operations, const GroupOptions& options, EngineTime now) {
  if (operations.size() == 1 && !options.partial && !options.dry) [[likely]] {
    Operation& operation = operations[0];
    const Limit& limit = *operation.limit;
    if (limit.params.algorithm == Algorithm::kTokenBucket && limit.params.kind == RateKind::kFinite &&
        !IsDeferred(TokenBucket{}, operation, options)) [[likely]] {
      if (IsStale(operation)) [[unlikely]]
        return GroupStatus::kStale;
      DecideOne(operation, now, options);
      return GroupStatus::kDecided;
    }
  }
  const GroupStatus status = CheckFresh(operations, now);
  if (status == GroupStatus::kDecided) DecideAll(operations, options, now);
  return status;
}

Outcome GroupOutcome(std::span<const Operation> operations) {
  Outcome worst = Outcome::kAllowed;
  for (const Operation& operation : operations) {
    if (operation.limit->shadow || operation.skipped) continue;
    if (Severity(operation.verdict.outcome) > Severity(worst)) worst = operation.verdict.outcome;
  }
  return worst;
}

bool PermitsAloneRefuse(std::span<const Operation> operations) {
  if (GroupOutcome(operations) != Outcome::kDenied) return false;
  for (const Operation& operation : operations) {
    const bool refuses = !operation.limit->shadow && operation.verdict.outcome != Outcome::kAllowed;
    if (refuses && !IsPermits(*operation.limit)) return false;
  }
  return true;
}

void AdjustCharge(Operation& operation, const Charge& charge, int64_t delta, EngineTime now,
                  const PermitAsk* permit) {
  JudgeWithoutNumber(operation);
  operation.charge = charge;
  const BucketView& bucket = operation.bucket;
  if (!IsFinite(*operation.limit)) return;
  if (IsStale(operation)) return;
  const int64_t change = std::max(delta, -std::max<int64_t>(charge.cost, 0));
  // What was to come back. A permit is given back by its id, whatever its limit has become.
  const bool lost = !IsPermits(*operation.limit) && bucket.present && bucket.version > charge.version;
  const int64_t kept = lost ? std::max<int64_t>(change, 0) : change;
  Dispatch(operation.limit->params.algorithm,
           [&](auto rule) { Amend(rule, charge, kept, operation, now, permit); });
  operation.charge = charge;
  operation.charge.cost += change;
}

EngineTime IdleAt(const LimitParams& params, const BucketState& state) {
  if (params.algorithm == Algorithm::kPermits) return Permits::ForgottenAt(params, state);
  return Dispatch(params.algorithm, [&](auto rule) { return decltype(rule)::IdleAt(params, state); });
}

}  // namespace penstock::core
