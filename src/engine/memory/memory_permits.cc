// The memory engine's permits beyond a decision: who waits and who is woken, releases and renewals, who holds.
#include <algorithm>
#include <string>

#include "engine/holder_list.h"
#include "engine/memory/memory_session.h"
#include "engine/memory/shard_locks.h"

namespace penstock::engine {
namespace {

// An expiry wakes nobody, so the head asks when one may have made room.
constexpr Micros kHeadAsksAgainAfter = Seconds(1);
constexpr Micros kAskAgainAtLeast = Millis(1);
// Those behind are woken in their turn, and no wake-up is lost within a process: that they ask is a second rope.
constexpr Micros kOthersAskAgainAfter = Seconds(10);

Micros HeadAsksAgainAfter(const HolderRecord& record, EngineTime now) {
  const core::Holder* const first = record.order().Next(nullptr);
  if (first == nullptr) return kHeadAsksAgainAfter;
  return std::clamp(first->expires_at - now, kAskAgainAtLeast, kHeadAsksAgainAfter);
}

}  // namespace

MemorySession::MemorySession(MemoryEngine& engine, Executor* executor)
    : engine_(engine), table_(*engine.table_), post_(std::make_shared<WakePost>(executor)) {}

MemorySession::~MemorySession() { Close(); }

void MemorySession::Close() noexcept NO_THREAD_SAFETY_ANALYSIS {
  post_->Close();
  if (post_->entries.load(std::memory_order_relaxed) == 0) return;
  for (size_t i = 0; i < table_.shard_count(); ++i) {
    if (post_->entries.load(std::memory_order_relaxed) == 0) break;
    Shard& shard = table_.shard(i);
    shard.lock.Lock();
    shard.slots.ForEach([&](const Slot& slot) {
      HolderRecord* const record = table_.PermitsIn(shard, slot);
      if (record == nullptr || record->waiting() == 0) return;
      record->LeaveAllOf(*post_);
      WakeHead(slot, *record);
    });
    shard.lock.Unlock();
  }
  SendWakeUps();
}

void MemorySession::HoldBack(core::Operation& operation) const {
  const core::Limit& limit = *operation.limit;
  if (limit.strict) operation.granted_from = engine_.started_at_ + limit.params.period;
}

void MemorySession::BoundQueue(core::Operation& operation) {
  Shard& shard = table_.ShardFor(operation);
  const Slot* const slot = shard.slots.Find(operation.name);
  if (slot == nullptr || operation.bucket.waits) return;
  const HolderRecord* const record = table_.PermitsIn(shard, *slot);
  if (record == nullptr || record->waiting() < WaitQueue::kMaxWaiters) return;
  operation.edit.permit = core::PermitChange::kNone;
  operation.verdict.queued = false;
}

void MemorySession::TellPermits(const Work& work) {
  for (const core::Operation& operation : work.operations) {
    if (core::IsPermits(*operation.limit)) TellPermit(work, operation);
  }
}

void MemorySession::TellPermit(const Work& work, const core::Operation& operation) {
  GroupResult& result = work.group.result;
  if (operation.charge.cost > 0 && work.group.options.permit != nullptr) {
    result.permit_id = work.group.options.permit->id;
  }
  // A bucket that was absent has a queue only if a strict limit holds all back.
  if (!operation.bucket.present && !operation.verdict.queued) return;
  Shard& shard = table_.ShardFor(operation);
  const Slot* const slot = shard.slots.Find(operation.name);
  HolderRecord* const record = slot == nullptr ? nullptr : table_.PermitsIn(shard, *slot);
  if (record == nullptr || record->waiting() == 0) return;
  const bool held_back = operation.limit->strict && work.now < operation.granted_from;
  if (operation.verdict.queued) {
    result.queued = true;
    const bool head = record->IsHead(work.group.options.permit->id);
    result.ask_again_after =
        held_back ? std::clamp(operation.granted_from - work.now, kAskAgainAtLeast, kHeadAsksAgainAfter)
        : head || !post_->reaches() ? HeadAsksAgainAfter(*record, work.now)
                                    : kOthersAskAgainAfter;
  }
  // Until then room is of no use to whoever is woken: he would ask in vain, and be woken by that.
  if (!held_back) WakeHead(*slot, *record);
}

void MemorySession::WakeHead(const Slot& slot, HolderRecord& record) {
  if (record.waiting() > 0) record.WakeHead(table_.params()[slot.params()].params.capacity, wake_ups_);
}

// The last fence stays known while it is ahead of the clock, and so does the queue.
void MemorySession::DropHolders(const core::Operation& operation, EngineTime now) {
  Shard& shard = table_.ShardFor(operation);
  const Slot* const slot = shard.slots.Find(operation.name);
  HolderRecord* const record = slot == nullptr ? nullptr : table_.PermitsIn(shard, *slot);
  if (record == nullptr) return;
  const Micros lease = table_.params()[slot->params()].params.period;
  shard.counters.reclaimed += record->Open(now, lease);
  record->DropHolders();
  if (record->IdleAt(lease) <= now) {
    table_.Erase(operation.name);
  } else {
    BucketTable::ExpectIdle(shard, record->IdleAt(lease).us);
    WakeHead(*slot, *record);
  }
}

void MemorySession::ListHolders(const Work& work) {
  const ShardLocks locks(table_, work.operations);
  HolderList ignored;
  HolderList& list = work.group.listing == nullptr ? ignored : *work.group.listing;
  HolderList fresh;
  fresh.only = std::move(list.only);
  fresh.sums_only = list.sums_only;
  list = std::move(fresh);
  for (core::Operation& operation : work.operations) {
    Shard& shard = table_.ShardFor(operation);
    const Slot* const slot = table_.Look(shard, operation, work.now, nullptr);
    HolderRecord* const record = slot == nullptr ? nullptr : table_.PermitsIn(shard, *slot);
    const int64_t capacity = operation.limit->params.capacity;
    operation.edit = {};
    operation.charge = {};
    operation.verdict = {.outcome = Outcome::kAllowed, .limit = capacity, .remaining = capacity};
    list.bucket = operation.name;
    if (record == nullptr) continue;
    list.in_use = record->in_use();
    list.waiting = static_cast<int64_t>(record->waiting());
    operation.verdict.remaining = std::max<int64_t>(capacity - list.in_use, 0);
    const core::HolderOrder& order = record->order();
    for (const core::Holder* at = order.Next(nullptr); at != nullptr; at = order.Next(at)) {
      if (list.sums_only) {
        list.held += at->weight;
        continue;
      }
      const std::string_view name = HolderRecord::NameOf(*at);
      if (!list.only.empty() && name != list.only) continue;
      if (list.entries.size() == HolderList::kMaxEntries) {
        list.more = true;
        break;
      }
      list.entries.push_back({at->id, static_cast<uint32_t>(at->weight), at->fence, at->expires_at - work.now,
                              std::string(name)});
    }
    WakeHead(*slot, *record);
  }
}

void MemorySession::CallPermits(std::span<PermitCall> calls, SteadyTime, PermitSink& sink) noexcept {
  const EngineTime now = engine_.Now();
  for (PermitCall& call : calls) {
    call.reason = Reason::kNone;
    call.expires_in = {INT64_MAX};
    call.fate = call.permit.size == 0 ? core::PermitFate::kUnknown : DoneFate(call.verb);
    for (const PermitPlace& place : call.permit.held()) {
      call.fate = core::Together(call.fate, CallOne(call, place, now));
    }
    if (call.fate != core::PermitFate::kRenewed) call.expires_in = {};
    sink.Called(call);
  }
  SendWakeUps();
}

// The names stand in a text that anybody may have written: they may mean nothing, or a bucket of another kind.
core::PermitFate MemorySession::CallOne(PermitCall& call, const PermitPlace& place,
                                        EngineTime now) NO_THREAD_SAFETY_ANALYSIS {
  const Hash128 name = SlotName(place.bucket);
  Shard& shard = table_.shard(table_.ShardOf(name));
  core::PermitFate fate = core::PermitFate::kUnknown;
  shard.lock.Lock();
  const Slot* const slot = shard.slots.Find(name);
  HolderRecord* const record = slot == nullptr ? nullptr : table_.PermitsIn(shard, *slot);
  if (record != nullptr) {
    const Micros lease = table_.params()[slot->params()].params.period;
    shard.counters.reclaimed += record->Open(now, lease);
    const core::Holder* found = record->Find(call.permit.id);
    // Granted anew under the id: not what the text says.
    if (found != nullptr && found->fence != place.fence) found = nullptr;
    if (call.verb == PermitVerb::kLeave) {
      if (record->Leave(call.permit.id)) fate = core::PermitFate::kReleased;
    } else if (call.verb == PermitVerb::kRelease) {
      fate = core::Released(found, now);
      if (fate == core::PermitFate::kReleased) record->Remove(call.permit.id);
    } else {
      const core::Renewal renewal = core::Renewed(found, core::LeaseUnder(lease, call.lease), now);
      fate = renewal.fate;
      if (fate == core::PermitFate::kRenewed) {
        record->Renew(call.permit.id, renewal.expires_at);
        call.expires_in = std::min(call.expires_in, renewal.expires_at - now);
      }
    }
    BucketTable::ExpectIdle(shard, record->IdleAt(lease).us);
    WakeHead(*slot, *record);
  }
  shard.lock.Unlock();
  return fate;
}

void MemorySession::SendWakeUps() {
  if (wake_ups_.empty()) [[likely]]
    return;
  std::vector<WakeUp> due;
  due.swap(wake_ups_);
  for (const WakeUp& wake_up : due) wake_up.post->Wake(wake_up.permit_id);
}

}  // namespace penstock::engine
