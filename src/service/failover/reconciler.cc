#include "service/failover/reconciler.h"

#include <algorithm>

#include "service/policy_store.h"

namespace penstock::service {

void Reconciler::Wake() {
  if (!scheduled_ && !closed_) Schedule();
}

void Reconciler::Schedule() {
  scheduled_ = true;
  timer_id_ = timer_.Schedule(clock_.Steady() + (healthy_ ? kBusyPause : kOutagePause), [this] { Turn(); });
}

void Reconciler::Close() {
  closed_ = true;
  if (scheduled_) timer_.Cancel(timer_id_);
  scheduled_ = false;
}

void Reconciler::SetPolicy(std::shared_ptr<const void> policy) {
  policy_ = std::move(policy);
  by_identity_.clear();
  indexed_ = false;
}

void Reconciler::Turn() {
  scheduled_ = false;
  if (closed_) return;
  if (Flight* const flight = Acquire(); flight != nullptr) {
    Fill(*flight);
    flight->open = flight->items.size();
    if (flight->open > 0) {
      remote_.Decide(flight->batch, clock_.Steady() + node_.options.report_timeout, *this);
    }
  }
  if (node_.books.size() > 0) return Schedule();
  if (healthy_) node_.Ended();
}

Reconciler::Flight* Reconciler::Acquire() {
  for (const auto& flight : flights_) {
    if (flight->open > 0) continue;
    flight->batch.Clear();
    flight->items.clear();
    return flight.get();
  }
  if (flights_.size() == kMaxFlights) return nullptr;
  return flights_.emplace_back(std::make_unique<Flight>()).get();
}

void Reconciler::Fill(Flight& flight) {
  // While the engine does not answer one report asks whether it does again.
  const size_t most = healthy_ ? kReportsPerTurn : 1;
  for (size_t i = 0; i < LocalBooks::kShards; ++i) {
    LocalBooks::Shard& shard = node_.books.NextShard();
    MutexLock lock(shard.mutex);
    for (size_t looks = std::min(shard.size(), kLooksPerShard); looks > 0; --looks) {
      if (healthy_ && flight.items.size() >= most) return;
      LookAt(shard, flight);
    }
  }
}

void Reconciler::LookAt(LocalBooks::Shard& shard, Flight& flight) {
  Hash128 name;
  LocalBucket& bucket = *shard.Next(name);
  if (bucket.pins > 0 || bucket.in_flight > 0) return;
  key_.assign(bucket.key.begin(), bucket.key.end());
  const core::Limit& share = bucket.share->limit;
  scratch_.Clear();
  core::WindowBoundaries edges;
  const core::WindowBoundaries* boundaries = nullptr;
  if (core::IsCalendar(share.params.window)) {
    const auto found = calendar_.Find(share, local_.EstimateNow());
    if (!found) return;
    edges = **found;
    boundaries = &edges;
  }
  const LocalView view = LookAtLocal(local_, share, key_, boundaries, scratch_);
  if (!view.valid) return;
  Adjustments owed = bucket.use.Owed(share.params, view.state, view.now);
  if (owed.count == 0 && (healthy_ || view.idle)) {
    Forget(bucket);
    shard.EraseLast();
    node_.books.GivePlace();
    return;
  }
  if (!healthy_ && !flight.items.empty()) return;
  if (owed.count == 0) owed.Add({}, 0);  // asks no more than whether the engine answers
  if (clock_.Steady() < bucket.next_try) return;
  for (const Adjustment& adjustment : owed.all()) {
    ++bucket.in_flight;
    Report(bucket, {name, bucket.share, bucket.policy, view.state, adjustment}, flight);
  }
}

void Reconciler::Report(const LocalBucket& bucket, const Item& item, Flight& flight) {
  engine::Group& group = flight.batch.AddGroup();
  group.mode = engine::Mode::kAdjust;
  group.domain = bucket.limit->domain;
  group.token = flight.items.size();
  core::Operation& operation = flight.batch.AddOperation(*bucket.limit, key_);
  operation.cost = item.adjustment.cost;
  operation.charge = item.adjustment.charge;
  if (core::IsPermits(*bucket.limit)) {
    group.options.permit = CopyAsk(item.adjustment.permit, flight.batch);
  }
  if (core::IsCalendar(bucket.limit->params.window))
    operation.boundaries = Boundaries(*bucket.limit, remote_.EstimateNow(), flight.batch);
  flight.items.push_back(item);
}

const core::WindowBoundaries* Reconciler::Boundaries(const core::Limit& limit, EngineTime now,
                                                     engine::Batch& batch) {
  const Result<const core::WindowBoundaries*> found = calendar_.Find(limit, now);
  if (!found) return nullptr;
  return new (batch.Allocate(sizeof(core::WindowBoundaries))) core::WindowBoundaries(**found);
}

void Reconciler::Forget(const LocalBucket& bucket) {
  NoSink no_sink;
  scratch_.Clear();
  scratch_.AddGroup().mode = engine::Mode::kReset;
  scratch_.AddOperationInPlace(bucket.share->limit, key_);
  local_.Decide(scratch_, SteadyTime{}, no_sink);
}

void Reconciler::Decided(engine::Batch& batch, engine::Group& group) noexcept {
  const auto of = std::find_if(flights_.begin(), flights_.end(),
                               [&batch](const auto& flight) { return &flight->batch == &batch; });
  Flight& flight = **of;
  const Item& item = flight.items[group.token];
  {
    LocalBooks::Shard& shard = node_.books.ShardOf(item.name);
    MutexLock lock(shard.mutex);
    LocalBucket& bucket = *shard.Find(item.name);  // what is in flight is not erased
    --bucket.in_flight;
    const bool was_healthy = healthy_;
    healthy_ = group.result.state != engine::GroupState::kUnavailable;
    switch (group.result.state) {
      case engine::GroupState::kDecided:
        Reported(item, group, batch.operations(group)[0], bucket);
        break;
      case engine::GroupState::kStale:
        Renew(item, bucket);
        break;
      default:
        Failed(group, was_healthy, bucket);
        break;
    }
  }
  --flight.open;
}

void Reconciler::Reported(const Item& item, const engine::Group& group, const core::Operation& operation,
                          LocalBucket& bucket) {
  bucket.failures = 0;
  bucket.next_try = {};
  const core::LimitParams& params = operation.limit->params;
  const EngineTime window = item.adjustment.charge.window;
  const EngineTime now = group.result.now;
  // The engine counts another window: that of ours, still open, is charged to none.
  if (params.algorithm == core::Algorithm::kFixedWindow && window > now &&
      now + operation.verdict.reset_after != window) {
    return Lose(item, bucket);
  }
  if (item.adjustment.cost > 0) bucket.use.Told(item.share->limit.params, item.state, item.adjustment);
  node_.counters.reported_units.fetch_add(static_cast<uint64_t>(item.adjustment.cost),
                                          std::memory_order_relaxed);
  node_.seen.Note(item.name, UseOf(operation, now));
}

void Reconciler::Lose(const Item& item, LocalBucket& bucket) {
  bucket.use.Told(item.share->limit.params, item.state, item.adjustment);
  node_.counters.lost_units.fetch_add(static_cast<uint64_t>(item.adjustment.cost), std::memory_order_relaxed);
}

// In an outage nobody needs a pause of its own: one report a turn asks for all. As soon as the engine answers, all go.
void Reconciler::Failed(const engine::Group& group, bool was_healthy, LocalBucket& bucket) {
  node_.counters.failed_reports.fetch_add(1, std::memory_order_relaxed);
  if (group.result.state == engine::GroupState::kStaleClock || !was_healthy) return;
  const int doublings = std::min(bucket.failures++, 6);
  bucket.next_try = clock_.Steady() + std::min(kOutagePause * (int64_t{1} << doublings), kLongestRetry);
}

void Reconciler::Renew(const Item& item, LocalBucket& bucket) {
  const core::Limit* const newer = NewerOf(*bucket.limit);
  if (newer == nullptr) {
    if (policy_ == bucket.policy || policy_ == nullptr) {  // this node's policy is late; it will come
      bucket.next_try = clock_.Steady() + kOutagePause;
      return;
    }
    return Lose(item, bucket);
  }
  bucket.limit = newer;
  bucket.policy = policy_;
}

// Of several limits of one identity (a limit and its overrides) the one with the same parameters.
const core::Limit* Reconciler::NewerOf(const core::Limit& limit) {
  if (policy_ == nullptr) return nullptr;
  const auto* const published = static_cast<const PublishedPolicy*>(policy_.get());
  if (!indexed_ && published->policy != nullptr) {
    for (const core::Limit* const each : published->policy->limits())
      by_identity_.emplace(each->identity, each);
  }
  indexed_ = true;
  const auto [begin, end] = by_identity_.equal_range(limit.identity);
  const core::Limit* only = nullptr;
  for (auto at = begin; at != end; ++at) {
    if (at->second->version <= limit.version) continue;
    if (at->second->params == limit.params) return at->second;
    only = std::next(begin) == end ? at->second : nullptr;
  }
  return only;
}

}  // namespace penstock::service
