#include "service/failover/stand_in.h"

#include <algorithm>
#include <limits>
#include <new>

#include "core/permits.h"
#include "engine/permit_id.h"

namespace penstock::service {
namespace {

constexpr SteadyTime kNoDeadline{std::numeric_limits<int64_t>::max()};

bool IsFinite(const core::Limit& limit) { return limit.params.kind == core::RateKind::kFinite; }

bool IsLog(const core::Limit& limit) { return limit.params.algorithm == core::Algorithm::kSlidingLog; }

core::Operation& AddAdjustment(engine::Batch& batch, const core::Limit& limit,
                               std::span<const std::string_view> key,
                               const core::WindowBoundaries* boundaries, const Adjustment& adjustment) {
  engine::Group& group = batch.AddGroup();
  group.mode = engine::Mode::kAdjust;
  group.domain = limit.domain;
  core::Operation& operation = batch.AddOperationInPlace(limit, key);
  operation.cost = adjustment.cost;
  operation.charge = adjustment.charge;
  operation.boundaries = boundaries;
  if (core::IsPermits(limit)) group.options.permit = CopyAsk(adjustment.permit, batch);
  return operation;
}

}  // namespace

const core::PermitAsk* CopyAsk(const core::PermitAsk& ask, engine::Batch& batch) {
  auto* const copy = new (batch.Allocate(sizeof(core::PermitAsk))) core::PermitAsk(ask);
  copy->holder = batch.Copy(ask.holder);
  return copy;
}

LocalView LookAtLocal(engine::EngineSession& local, const core::Limit& share,
                      std::span<const std::string_view> key, const core::WindowBoundaries* boundaries,
                      engine::Batch& scratch) {
  NoSink no_sink;
  scratch.Clear();
  AddAdjustment(scratch, share, key, boundaries, {});
  local.Decide(scratch, kNoDeadline, no_sink);
  const engine::GroupResult& result = scratch.groups()[0].result;
  const core::Operation& operation = scratch.operations()[0];
  return {.state = operation.edit.state,
          .now = result.now,
          .idle = operation.verdict.reset_after == Micros{},
          .valid = result.state == engine::GroupState::kDecided};
}

bool StandIn::Decide(engine::Batch& batch, engine::Group& group) {
  const engine::Mode mode = group.mode;
  if (mode != engine::Mode::kCheck && mode != engine::Mode::kSettle) return false;
  const auto operations = batch.operations(group);
  const auto wants = [](const core::Operation& operation) {
    return operation.limit->on_failure == core::OnFailure::kLocal;
  };
  if (std::none_of(operations.begin(), operations.end(), wants)) return false;
  chosen_.clear();
  const engine::Fleet fleet = node_.fleet();
  if (fleet.known && fleet.nodes > 0) Choose(batch, group, fleet);
  bool decided = false;
  if (!chosen_.empty()) {
    if (OpenAll(batch, mode)) {
      local_.Decide(mine_, kNoDeadline, no_sink_);
      refusal_ = mine_.groups()[0].result;
      const bool charged = refusal_.state == engine::GroupState::kDecided && !refusal_.replayed;
      const auto told = mine_.operations();
      for (size_t i = 0; i < chosen_.size(); ++i) Close(chosen_[i], told[i], charged, mode);
      if (charged) KeepPermit();
    }
    decided = Finish(group);
    chosen_.clear();  // lets the shares go
  }
  (decided ? node_.counters.local_decisions : node_.counters.without_share)
      .fetch_add(1, std::memory_order_relaxed);
  return decided;
}

// Puts the local part of the group into mine_.
void StandIn::Choose(engine::Batch& batch, engine::Group& group, const engine::Fleet& fleet) {
  mine_.Clear();
  engine::Group& mine = mine_.AddGroup();
  mine.mode = group.mode;
  mine.options = group.options;
  core::PermitAsk ask;
  if (group.options.permit != nullptr) {
    ask = *group.options.permit;
    ask.queue_for = {};  // who waits, waits for the engine: now on_failure answers
    mine.options.permit = CopyAsk(ask, mine_);
  }
  mine.domain = group.domain;
  mine.request_id = group.request_id;
  mine.fingerprint = group.fingerprint;
  mine.keep_id = group.keep_id;
  for (core::Operation& operation : batch.operations(group)) {
    const core::Limit& limit = *operation.limit;
    operation.verdict = {};
    operation.edit = {};
    operation.charge = {};
    operation.skipped = false;
    std::shared_ptr<const Share> share;
    Hash128 name;
    if (limit.on_failure == core::OnFailure::kLocal) {
      const Hash128 identity = node_.IdentityOf(limit);
      share = shares_.Find(limit, identity, fleet);
      name = node_.NameOf(identity, operation.key);
    }
    if (share == nullptr) {
      if (!limit.shadow && limit.on_failure != core::OnFailure::kAllow) mine.options.dry = true;
      continue;
    }
    core::Operation& own = mine_.AddOperationInPlace(share->limit, operation.key);
    own.cost = operation.cost;
    own.unit = operation.unit;
    own.boundaries = operation.boundaries;
    chosen_.push_back({&operation, name, std::move(share)});
  }
}

bool StandIn::OpenAll(const engine::Batch& batch, engine::Mode mode) {
  for (size_t i = 0; i < chosen_.size(); ++i) {
    Chosen& chosen = chosen_[i];
    if (Open(batch, chosen)) {
      if (mode != engine::Mode::kSettle || !IsLog(chosen.share->limit)) continue;
      chosen.before = LookAtLocal(local_, chosen.share->limit, chosen.operation->key,
                                  chosen.operation->boundaries, seeds_)
                          .state.value;
      continue;
    }
    for (size_t opened = 0; opened < i; ++opened) Close(chosen_[opened], {}, false, mode);
    return false;
  }
  return true;
}

bool StandIn::Open(const engine::Batch& batch, Chosen& chosen) {
  const core::Limit& limit = *chosen.operation->limit;
  if (!IsFinite(limit)) return true;
  LocalBooks::Shard& shard = node_.books.ShardOf(chosen.name);
  MutexLock lock(shard.mutex);
  LocalBucket* bucket = shard.Find(chosen.name);
  const bool fresh = bucket == nullptr;
  if (fresh) {
    if (!node_.books.TakePlace()) {
      refusal_ = {.state = engine::GroupState::kUnavailable, .reason = Reason::kFull, .now = {}};
      return false;
    }
    bucket = &shard.Add(chosen.name);
    bucket->key.assign(chosen.operation->key.begin(), chosen.operation->key.end());
  }
  if (fresh || bucket->limit->version != limit.version || bucket->limit->params != limit.params ||
      bucket->share->nodes != chosen.share->nodes) {
    if (!fresh) bucket->use.Change(chosen.share->limit.params, local_.EstimateNow());
    bucket->share = chosen.share;
    bucket->limit = chosen.share->ad_hoc != nullptr ? chosen.share->ad_hoc.get() : &limit;
    bucket->policy = batch.policy;
  }
  if (fresh && !Seed(chosen, *bucket)) {
    shard.EraseLast();
    node_.books.GivePlace();
    return false;
  }
  ++bucket->pins;
  chosen.has_bucket = true;
  return true;
}

bool StandIn::Seed(const Chosen& chosen, LocalBucket& bucket) {
  const core::Limit& share = chosen.share->limit;
  const std::optional<SeenUse> seen = node_.seen.Find(chosen.name);
  bucket.use.Begin(share.params, {});
  if (!seen) return true;
  const Adjustments plan = SeedOf(share.params, *seen, chosen.share->nodes, local_.EstimateNow());
  if (plan.count == 0) return true;
  seeds_.Clear();
  for (const Adjustment& adjustment : plan.all())
    AddAdjustment(seeds_, share, chosen.operation->key, chosen.operation->boundaries, adjustment);
  local_.Decide(seeds_, kNoDeadline, no_sink_);
  for (const engine::Group& group : seeds_.groups()) {
    refusal_ = group.result;
    if (refusal_.state != engine::GroupState::kDecided) return false;
  }
  bucket.use.Begin(share.params, seeds_.operations().back().edit.state);
  return true;
}

void StandIn::Close(const Chosen& chosen, const core::Operation& decided, bool charged, engine::Mode mode) {
  if (!chosen.has_bucket) return;
  LocalBooks::Shard& shard = node_.books.ShardOf(chosen.name);
  MutexLock lock(shard.mutex);
  LocalBucket& bucket = *shard.Find(chosen.name);
  --bucket.pins;
  const core::Limit& share = chosen.share->limit;
  if (!charged) return;
  if (core::IsPermits(share) && mode == engine::Mode::kCheck && decided.charge.cost > 0) {
    bucket.use.NotePermit(*mine_.groups()[0].options.permit, decided.charge);
  }
  if (!IsLog(share)) return;
  core::Charge charge = decided.charge;
  if (mode == engine::Mode::kSettle) charge.cost = decided.edit.state.value - chosen.before;
  bucket.use.Note(share.params, charge);
}

// What was granted here is released and renewed here too, until the engine has been told of it.
void StandIn::KeepPermit() {
  const engine::PermitId granted = engine::GrantedPermit(mine_.operations(), refusal_);
  if (granted.size == 0) return;
  LocalPermit permit{.weight = granted.weight};
  const auto told = mine_.operations();
  for (size_t i = 0; i < chosen_.size() && permit.size < engine::kMaxPermitBuckets; ++i) {
    if (!core::IsPermits(chosen_[i].share->limit) || told[i].charge.cost <= 0) continue;
    const int64_t fence = core::Permits::FenceOf(told[i].charge);
    permit.places[permit.size++] = {
        chosen_[i].name, {told[i].name, fence}, {chosen_[i].operation->name, fence}};
    permit.known_until = std::max(
        permit.known_until, core::Permits::ExpiryOf(told[i].charge) + chosen_[i].share->limit.params.period);
  }
  node_.permits.Add(granted.id, permit, refusal_.now);
}

void StandIn::Tell(engine::Group& group) {
  const auto told = mine_.operations();
  for (size_t i = 0; i < chosen_.size(); ++i) {
    core::Operation& operation = *chosen_[i].operation;
    operation.verdict = told[i].verdict;
    operation.charge = told[i].charge;
    operation.skipped = told[i].skipped;
    // More than the share, but not more than the limit: the fleet may have it.
    if (operation.verdict.outcome == Outcome::kNever && IsFinite(*operation.limit) &&
        operation.cost <= operation.limit->params.capacity) {
      operation.verdict = {};
    }
  }
  if (!group.request_id.empty() && group.mode == engine::Mode::kCheck) {
    node_.KeepsId(refusal_.now + group.keep_id);
  }
}

bool StandIn::Finish(engine::Group& group) {
  switch (refusal_.state) {
    case engine::GroupState::kDecided:
      Tell(group);
      refusal_.degraded = true;
      refusal_.reason = group.result.reason;
      refusal_.may_have_run = group.result.may_have_run;
      group.result = refusal_;
      return true;
    case engine::GroupState::kConflict:
    case engine::GroupState::kStaleClock:  // asked again with the edges of the local engine's time
      group.result = refusal_;
      return true;
    case engine::GroupState::kUnavailable:
      group.result.reason = refusal_.reason;
      return false;
    case engine::GroupState::kUnknownId:  // the engine may well keep it
    case engine::GroupState::kStale:
      return false;
  }
  return false;
}

}  // namespace penstock::service
