#include "engine/memory/memory_session.h"

#include <algorithm>

#include "core/plain_bucket.h"
#include "engine/memory/shard_locks.h"

namespace penstock::engine {
namespace {

bool Charged(const core::Operation& operation) { return operation.charge.cost != 0; }

}  // namespace

void MemorySession::Decide(Batch& batch, SteadyTime, Sink& sink) noexcept {
  const EngineTime now = engine_.Now();
  const std::span<Group> groups = batch.groups();
  const std::span<core::Operation> operations = batch.operations();
  size_t named = 0;  // operations whose lines are on their way
  for (Group& group : groups) {
    if (group.first + group.count > named) {
      const size_t end = std::min(named + kRun, operations.size());
      for (; named < end; ++named) {
        if (!operations[named].named) Expect(operations[named]);
      }
    }
    group.result = {.state = GroupState::kDecided, .now = now};
    if (group.count == 1 && group.mode == Mode::kCheck && group.request_id.empty()) [[likely]] {
      DecideOne(group, operations[group.first], now);
    } else {
      DecideGroup({group, operations.subspan(group.first, group.count), now});
    }
    sink.Decided(batch, group);
  }
  SendWakeUps();
}

void MemorySession::Expect(core::Operation& operation) noexcept {
  const Hash128 key = engine_.hash_key_.HashParts(operation.key);
  operation.name = SlotName(Combine(BindingOf(*operation.limit).identity, key));
  operation.named = true;
  table_.Prefetch(operation.name);
}

void MemorySession::DecideGroup(const Work& work) {
  const Group& group = work.group;
  if (work.operations.size() > kMaxOperations)
    return Refuse(work, GroupState::kUnavailable, Reason::kOverload);
  for (const core::Operation& operation : work.operations) {
    if (BindingOf(*operation.limit).params == ParamTable::kNone) return RefuseUnbound(work);
  }
  if (group.mode == Mode::kReset) return Reset(work);
  if (group.mode == Mode::kHolders) return ListHolders(work);
  if (group.mode == Mode::kAdjust) return Adjust(work);
  if (group.mode == Mode::kSettle || !group.request_id.empty()) return DecideUnderId(work);
  return DecideAll(work);
}

// Most requests: one limit, no request id; and most of these are plain.
void MemorySession::DecideOne(Group& group, core::Operation& operation,
                              EngineTime now) NO_THREAD_SAFETY_ANALYSIS {
  const core::Limit& limit = *operation.limit;
  const uint32_t params = BindingOf(limit).params;
  if (params == ParamTable::kNone || !core::IsPlain(limit.params, group.options, operation.cost))
      [[unlikely]] {
    return DecideOther({group, {&operation, 1}, now});
  }
  Shard& shard = table_.ShardFor(operation);
  shard.lock.Lock();
  Slot* const slot = shard.slots.Find(operation.name);
  if (slot == nullptr || slot->params() != params) [[unlikely]] {
    shard.lock.Unlock();
    return DecideOther({group, {&operation, 1}, now});
  }
  core::BucketState state{{slot->stamp()}, slot->value(), 0};
  if (core::DecidePlain(limit.params, true, operation.cost, now, state, operation.verdict)) {
    slot->Set(state.value, state.stamp.us, params);
    BucketTable::ExpectIdle(shard, now.us + operation.verdict.reset_after.count);
    if (operation.verdict.saturated) [[unlikely]]
      ++shard.counters.saturated;
  }
  shard.lock.Unlock();
}

void MemorySession::DecideOther(const Work& work) NO_THREAD_SAFETY_ANALYSIS {
  core::Operation& operation = work.operations[0];
  if (BindingOf(*operation.limit).params == ParamTable::kNone) return RefuseUnbound(work);
  Shard& shard = table_.ShardFor(work.operations[0]);
  shard.lock.Lock();
  Slot* const slot = table_.Look(shard, operation, work.now, work.group.options.permit);
  HoldBack(operation);
  const core::GroupStatus status = core::DecideGroup(work.operations, work.group.options, work.now);
  if (status != core::GroupStatus::kDecided) {
    shard.counters.stale += status == core::GroupStatus::kStale;
    Finish(work, status);
  } else {
    shard.counters.saturated += operation.verdict.saturated;
    if (operation.verdict.queued) BoundQueue(operation);
    if (operation.edit.write && !table_.StoreOne(shard, slot, operation, work.now, AskerOf(work))) {
      ++shard.counters.refused_full;
      Refuse(work, GroupState::kUnavailable, Reason::kFull);
    }
  }
  if (core::IsPermits(*operation.limit)) TellPermit(work, operation);
  shard.lock.Unlock();
}

void MemorySession::DecideAll(const Work& work) {
  const ShardLocks locks(table_, work.operations);
  DecideLocked(work);
}

void MemorySession::DecideLocked(const Work& work) {
  if (work.operations.empty()) return;
  ShardCounters& counters = table_.ShardFor(work.operations[0]).counters;
  for (core::Operation& operation : work.operations) {
    table_.Look(table_.ShardFor(operation), operation, work.now, work.group.options.permit);
    HoldBack(operation);
  }
  const core::GroupStatus status = core::DecideGroup(work.operations, work.group.options, work.now);
  if (status == core::GroupStatus::kDecided) {
    StoreAll(work);
  } else {
    counters.stale += status == core::GroupStatus::kStale;
    Finish(work, status);
  }
  TellPermits(work);
}

void MemorySession::DecideUnderId(const Work& work) NO_THREAD_SAFETY_ANALYSIS {
  const std::string_view parts[] = {work.group.domain, work.group.request_id};
  const Hash128 id = engine_.hash_key_.HashParts(parts);
  ShardLock& id_lock = engine_.ids_->LockOf(id);
  id_lock.Lock();
  IdRecord* const record = engine_.ids_->Find(id, work.now);
  if (work.group.mode == Mode::kSettle) {
    // Of other attributes than the request's nothing is kept under its id either: that must not pass for settled.
    const auto kept = [record](const core::Operation& operation) {
      return record->Find(operation.name) != nullptr;
    };
    if (record == nullptr || std::none_of(work.operations.begin(), work.operations.end(), kept)) {
      Refuse(work, GroupState::kUnknownId, Reason::kNone);
    } else {
      Settle(work, *record);
    }
  } else if (record == nullptr) {
    DecideAll(work);
    KeepId(work, id);
  } else if (record->fingerprint != work.group.fingerprint) {
    Refuse(work, GroupState::kConflict, Reason::kNone);
  } else {
    Replay(work, *record);
  }
  id_lock.Unlock();
}

void MemorySession::KeepId(const Work& work, const Hash128& id) {
  if (work.group.result.state != GroupState::kDecided) return;
  if (std::none_of(work.operations.begin(), work.operations.end(), Charged)) return;
  IdRecord* const record =
      engine_.ids_->Insert(id, work.operations.size(), work.now + work.group.keep_id, work.now);
  if (record == nullptr) {
    work.group.result.replayable = false;
    return;
  }
  record->fingerprint = work.group.fingerprint;
  record->permit_id = work.group.result.permit_id;
  for (size_t i = 0; i < work.operations.size(); ++i) {
    const core::Operation& operation = work.operations[i];
    StoredOperation& stored = record->operations[i];
    stored = {operation.name, operation.verdict, operation.charge};
    // Asked for nothing (a budget that is settled later): the place where the rest will be charged.
    if (!Charged(operation)) {
      stored.charge = {.at = work.now,
                       .window = operation.edit.state.stamp,
                       .debt_before = operation.edit.state.value,
                       .version = operation.limit->version};
    }
  }
}

void MemorySession::Replay(const Work& work, IdRecord& record) {
  for (core::Operation& operation : work.operations) {
    const StoredOperation* const stored = record.Find(operation.name);
    operation.skipped = stored == nullptr;
    operation.edit = {};
    operation.verdict = stored == nullptr ? core::Verdict{} : stored->verdict;
    operation.charge = stored == nullptr ? core::Charge{} : stored->charge;
  }
  work.group.result.replayed = true;
  work.group.result.permit_id = record.permit_id;
}

// Each limit that took part is charged, or given back, the difference between what was really used and what it took. A
// permit is held as it is.
void MemorySession::Settle(const Work& work, IdRecord& record) {
  const ShardLocks locks(table_, work.operations);
  if (RefuseLate(work)) return;
  for (core::Operation& operation : work.operations) {
    const StoredOperation* const stored = record.Find(operation.name);
    operation.skipped = stored == nullptr;
    // A shadow limit that had no room took no part.
    const bool took = stored != nullptr && stored->verdict.outcome == Outcome::kAllowed;
    const core::Charge charge = took ? stored->charge : core::Charge{};
    const int64_t delta = took && !core::IsPermits(*operation.limit) ? operation.cost - charge.cost : 0;
    core::AdjustCharge(operation, charge, delta, work.now);
  }
  if (!StoreAll(work)) return;
  for (const core::Operation& operation : work.operations) {
    if (StoredOperation* const stored = record.Find(operation.name); stored != nullptr) {
      if (stored->verdict.outcome == Outcome::kAllowed) stored->charge = operation.charge;
    }
  }
}

bool MemorySession::StoreAll(const Work& work) {
  for (core::Operation& operation : work.operations) {
    if (operation.verdict.queued) BoundQueue(operation);
  }
  if (!table_.MakeRoom(work.operations, work.now)) {
    ++table_.ShardFor(work.operations[0]).counters.refused_full;
    Refuse(work, GroupState::kUnavailable, Reason::kFull);
    return false;
  }
  for (const core::Operation& operation : work.operations) {
    if (operation.edit.write) table_.Store(operation, work.now, AskerOf(work));
    if (operation.verdict.saturated) [[unlikely]]
      ++table_.ShardFor(operation).counters.saturated;
  }
  return true;
}

bool MemorySession::RefuseLate(const Work& work) {
  for (core::Operation& operation : work.operations) {
    Shard& shard = table_.ShardFor(operation);
    table_.Look(shard, operation, work.now, work.group.options.permit);
    if (operation.bucket.present && operation.bucket.version > operation.limit->version) {
      ++shard.counters.stale;
      Finish(work, core::GroupStatus::kStale);
      return true;
    }
    const core::WindowBoundaries* const edges = operation.boundaries;
    if (!core::IsCalendar(operation.limit->params.window)) continue;
    if (edges == nullptr || work.now < edges->previous || work.now >= edges->end_of_next) {
      Finish(work, core::GroupStatus::kStaleBoundaries);
      return true;
    }
  }
  return false;
}

// Each operation brings the charge that its cost changes.
void MemorySession::Adjust(const Work& work) {
  const ShardLocks locks(table_, work.operations);
  if (RefuseLate(work)) return;
  for (core::Operation& operation : work.operations) {
    const core::Charge charge = operation.charge;
    core::AdjustCharge(operation, charge, operation.cost, work.now, work.group.options.permit);
  }
  StoreAll(work);
  TellPermits(work);
}

// The verdicts are those of a peek at the empty buckets.
void MemorySession::Reset(const Work& work) {
  const ShardLocks locks(table_, work.operations);
  for (core::Operation& operation : work.operations) {
    if (core::IsPermits(*operation.limit)) {
      DropHolders(operation, work.now);
    } else {
      table_.Erase(operation.name);
    }
    operation.bucket = {};
    operation.cost = 0;
  }
  Finish(work, core::DecideGroup(work.operations, work.group.options, work.now));
}

void MemorySession::Refuse(const Work& work, GroupState state, Reason reason) {
  work.group.result.state = state;
  work.group.result.reason = reason;
  for (core::Operation& operation : work.operations) {
    operation.verdict = {};
    operation.edit = {};
    operation.charge = {};
    operation.skipped = false;
  }
}

void MemorySession::RefuseUnbound(const Work& work) {
  engine_.counters_.refused_params.fetch_add(1, std::memory_order_relaxed);
  Refuse(work, GroupState::kUnavailable, Reason::kFull);
}

void MemorySession::Finish(const Work& work, core::GroupStatus status) {
  if (status == core::GroupStatus::kDecided) return;
  Refuse(work, status == core::GroupStatus::kStale ? GroupState::kStale : GroupState::kStaleClock,
         Reason::kNone);
}

}  // namespace penstock::engine
