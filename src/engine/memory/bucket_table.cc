#include "engine/memory/bucket_table.h"

#include <bit>
#include <cstdlib>

#include "core/permits.h"

namespace penstock::engine {
namespace {

using core::Algorithm;

int64_t Field(int64_t value) { return std::clamp<int64_t>(value, 0, Slot::kMaxField); }

}  // namespace

BucketTable::BucketTable(size_t shards, uint64_t max_keys, std::shared_ptr<ParamTable> params)
    : shard_bits_(std::countr_zero(shards)),
      max_keys_(max_keys),
      params_(std::move(params)),
      shards_(std::make_unique<Shard[]>(shards)) {
  for (size_t i = 0; i < shards; ++i) shards_[i].slots.set_shard_bits(shard_bits_);
}

BucketTable::~BucketTable() = default;

core::BucketState BucketTable::StateOf(const Shard& shard, const Slot& slot, Algorithm algorithm) const {
  const EngineTime stamp{slot.stamp()};
  if (algorithm == Algorithm::kSlidingWindow) {
    const WindowRecord& record = shard.windows[static_cast<size_t>(slot.value())];
    return {stamp, record.value, record.before};
  }
  if (algorithm == Algorithm::kSlidingLog)
    return {stamp, shard.logs[static_cast<size_t>(slot.value())].sum(), 0};
  if (algorithm == Algorithm::kPermits) return shard.permits[static_cast<size_t>(slot.value())].state();
  return {stamp, slot.value(), 0};
}

EngineTime BucketTable::IdleAt(const Shard& shard, const Slot& slot) const {
  const core::LimitParams& params = (*params_)[slot.params()].params;
  if (params.algorithm == Algorithm::kPermits)
    return shard.permits[static_cast<size_t>(slot.value())].IdleAt(params.period);
  return core::IdleAt(params, StateOf(shard, slot, params.algorithm));
}

bool BucketTable::View(Shard& shard, Slot& slot, core::Operation& operation, EngineTime now,
                       const core::PermitAsk* permit) {
  const core::Limit& limit = *operation.limit;
  core::BucketView& view = operation.bucket;
  view.present = true;
  const uint32_t params = slot.params();
  if (params == BindingOf(limit).params) [[likely]] {
    view.version = limit.version;
    view.params = &limit.params;
  } else {
    const ParamTable::Entry& entry = (*params_)[params];
    if (entry.params.algorithm != limit.params.algorithm) {
      EraseSlot(shard, &slot);
      view = {};
      return false;
    }
    view.params = &entry.params;
    view.version = entry.version;
    // Written under other parameters of the same registration (an override came or went): to core that is an older
    // version, so that it converts.
    if (entry.version == limit.version && entry.version > 0) view.version = entry.version - 1;
  }
  switch (limit.params.algorithm) {
    case Algorithm::kTokenBucket:
    case Algorithm::kFixedWindow:
      view.state = {{slot.stamp()}, slot.value(), 0};
      break;
    case Algorithm::kPermits: {
      HolderRecord& record = shard.permits[static_cast<size_t>(slot.value())];
      shard.counters.reclaimed += record.Open(now, view.params->period);
      record.Show(permit, view);
      break;
    }
    case Algorithm::kSlidingLog:
      view.runs = shard.logs[static_cast<size_t>(slot.value())].runs();
      [[fallthrough]];
    case Algorithm::kSlidingWindow:
      view.state = StateOf(shard, slot, limit.params.algorithm);
      break;
  }
  return true;
}

bool BucketTable::TryReserveKeys(uint64_t count) {
  uint64_t keys = keys_.load(std::memory_order_relaxed);
  do {
    if (max_keys_ - keys < count) return false;
  } while (!keys_.compare_exchange_weak(keys, keys + count, std::memory_order_relaxed));
  return true;
}

bool BucketTable::ReserveKeys(uint64_t count, std::span<const core::Operation> keep,
                              EngineTime now) NO_THREAD_SAFETY_ANALYSIS {
  if (TryReserveKeys(count)) [[likely]]
    return true;
  for (const core::Operation& operation : keep) {
    Shard& own = ShardFor(operation);
    if (MaySweep(own, now) && Sweep(own, keep, now) > 0 && TryReserveKeys(count)) return true;
  }
  // Another shard may hold idle keys. Only tried: its holder may be waiting for one of our locks. One that is ours
  // already is held too, and was swept above.
  for (size_t i = 0; i < shard_count(); ++i) {
    Shard& other = shards_[i];
    if (other.next_idle_us.load(std::memory_order_relaxed) > now.us || !other.lock.TryLock()) continue;
    const uint64_t dropped = MaySweep(other, now) ? Sweep(other, {}, now) : 0;
    other.lock.Unlock();
    if (dropped > 0 && TryReserveKeys(count)) return true;
  }
  return false;
}

// A sweep reads every slot. It is worth it only when something is known to be idle; and it is paid for, either by
// asking often enough or by time, so that a full table with one key going idle at a time does not sweep for each.
bool BucketTable::MaySweep(Shard& shard, EngineTime now) const {
  constexpr uint64_t kSlotsPerAsk = 64;
  constexpr int64_t kMicrosPerSlot = 1;
  if (shard.next_idle_us.load(std::memory_order_relaxed) > now.us) return false;
  ++shard.asked_since_sweep;
  if (shard.asked_since_sweep * kSlotsPerAsk >= shard.swept_slots || now.us < shard.swept_at_us) return true;
  return (now.us - shard.swept_at_us) / kMicrosPerSlot >= static_cast<int64_t>(shard.swept_slots);
}

uint64_t BucketTable::Sweep(Shard& shard, std::span<const core::Operation> keep, EngineTime now) {
  shard.swept_at_us = now.us;
  shard.swept_slots = shard.slots.size();
  shard.asked_since_sweep = 0;
  int64_t next_idle_us = INT64_MAX;
  const uint64_t dropped = shard.slots.Sweep([&](const Slot& slot) {
    const EngineTime idle_at = IdleAt(shard, slot);
    const Hash128 name{slot.high, slot.low};
    const auto kept = [&name](const core::Operation& operation) { return operation.name == name; };
    if (idle_at > now || std::any_of(keep.begin(), keep.end(), kept)) {
      next_idle_us = std::min(next_idle_us, idle_at.us);
      return false;
    }
    Drop(shard, slot);
    return true;
  });
  shard.next_idle_us.store(next_idle_us, std::memory_order_relaxed);
  shard.counters.evictions += dropped;
  keys_.fetch_sub(dropped, std::memory_order_relaxed);
  return dropped;
}

void BucketTable::Drop(Shard& shard, const Slot& slot) {
  const uint32_t params = slot.params();
  const Algorithm algorithm = (*params_)[params].params.algorithm;
  if (algorithm == Algorithm::kSlidingWindow) shard.windows.Free(static_cast<uint32_t>(slot.value()));
  if (algorithm == Algorithm::kSlidingLog) shard.logs.Free(static_cast<uint32_t>(slot.value()));
  if (algorithm == Algorithm::kPermits) shard.permits.Free(static_cast<uint32_t>(slot.value()));
  params_->Release(params);
}

bool BucketTable::ReserveSlots(Shard& shard, size_t count, std::span<const core::Operation> keep,
                               EngineTime now) {
  // Dropping a few only to sweep again soon would cost more than growing.
  constexpr uint64_t kWorthwhile = 16;
  while (!shard.slots.HasRoom(count)) {
    const uint64_t size = shard.slots.size();
    const bool sweep = MaySweep(shard, now);
    if (sweep && Sweep(shard, keep, now) * kWorthwhile >= size && shard.slots.HasRoom(count)) break;
    if (!shard.slots.Grow()) return false;
  }
  return true;
}

bool BucketTable::ReserveRecord(Shard& shard, Slot* slot, const core::Operation& operation, size_t fresh) {
  switch (operation.limit->params.algorithm) {
    case Algorithm::kTokenBucket:
    case Algorithm::kFixedWindow:
      return true;
    case Algorithm::kPermits:
      // A fresh record gets its first holder's room when it is stored.
      if (slot == nullptr) return shard.permits.Reserve(fresh);
      return shard.permits[static_cast<size_t>(slot->value())].Reserve(operation.edit);
    case Algorithm::kSlidingWindow:
      return shard.windows.Reserve(fresh);
    case Algorithm::kSlidingLog:
      // A fresh log gets its first run's room when it is stored: small enough to count as given.
      if (slot == nullptr) return shard.logs.Reserve(fresh);
      return shard.logs[static_cast<size_t>(slot->value())].Reserve(operation.edit.append_count);
  }
  return true;
}

bool BucketTable::MakeRoom(std::span<core::Operation> operations, EngineTime now) {
  for (const bool with_shadow : {true, false}) {
    bool given = false;
    uint64_t fresh = 0;
    for (core::Operation& operation : operations) {
      if (!operation.edit.write || ShardFor(operation).slots.Find(operation.name) != nullptr) continue;
      if (!with_shadow && operation.limit->shadow) {
        operation.edit = {};
        operation.charge = {};
        operation.verdict.outcome = Outcome::kUnavailable;
        given = true;
        continue;
      }
      ++fresh;
    }
    if (!with_shadow && !given) return false;
    if (fresh > 0 && !ReserveKeys(fresh, operations, now)) continue;
    bool room = true;
    for (const core::Operation& operation : operations) {
      if (!operation.edit.write || !room) continue;
      Shard& shard = ShardFor(operation);
      Slot* const slot = shard.slots.Find(operation.name);
      if (slot == nullptr) room = ReserveSlots(shard, fresh, operations, now);
      room = room && ReserveRecord(shard, slot, operation, fresh);
    }
    if (room) return true;
    keys_.fetch_sub(fresh, std::memory_order_relaxed);
  }
  return false;
}

void BucketTable::Store(const core::Operation& operation, EngineTime now, const Asker& asker) {
  Shard& shard = ShardFor(operation);
  Slot* slot = shard.slots.Find(operation.name);
  const bool fresh = slot == nullptr;
  if (fresh) slot = shard.slots.Insert(operation.name);
  Put(shard, *slot, fresh, operation, now, asker);
}

bool BucketTable::StoreOne(Shard& shard, Slot* slot, const core::Operation& operation, EngineTime now,
                           const Asker& asker) {
  if (slot != nullptr) [[likely]] {
    if (!ReserveRecord(shard, slot, operation, 0)) return false;
    Put(shard, *slot, false, operation, now, asker);
    return true;
  }
  const std::span<const core::Operation> keep(&operation, 1);
  if (!ReserveKeys(1, keep, now)) return false;
  if (!ReserveSlots(shard, 1, keep, now) || !ReserveRecord(shard, nullptr, operation, 1)) {
    keys_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  Put(shard, *shard.slots.Insert(operation.name), true, operation, now, asker);
  return true;
}

void BucketTable::Put(Shard& shard, Slot& slot, bool fresh, const core::Operation& operation, EngineTime now,
                      const Asker& asker) {
  const uint32_t params = BindingOf(*operation.limit).params;
  const core::BucketState& state = operation.edit.state;
  if (fresh) {
    params_->AddReference(params);
  } else if (slot.params() != params) [[unlikely]] {
    params_->AddReference(params);
    params_->Release(slot.params());
  }
  if (core::IsPermits(*operation.limit)) {
    PutPermits(shard, slot, fresh, operation, now, asker);
    return;
  }
  int64_t value = Field(state.value);
  if (operation.limit->params.algorithm == Algorithm::kSlidingWindow) {
    value = fresh ? shard.windows.Allocate() : slot.value();
    shard.windows[static_cast<size_t>(value)] = {state.value, state.before};
  } else if (operation.limit->params.algorithm == Algorithm::kSlidingLog) {
    value = fresh ? shard.logs.Allocate() : slot.value();
    LogRecord& log = shard.logs[static_cast<size_t>(value)];
    if (fresh && !log.Reserve(operation.edit.append_count)) std::abort();  // 64 bytes
    log.Apply(operation.edit);
  }
  slot.Set(value, Field(state.stamp.us), params);
  ExpectIdle(shard, now.us + operation.verdict.reset_after.count);
}

void BucketTable::PutPermits(Shard& shard, Slot& slot, bool fresh, const core::Operation& operation,
                             EngineTime now, const Asker& asker) {
  const core::BucketEdit& edit = operation.edit;
  const int64_t number = fresh ? shard.permits.Allocate() : slot.value();
  HolderRecord& record = shard.permits[static_cast<size_t>(number)];
  if (fresh) {
    record.Begin();
    shard.counters.reclaimed += record.Open(now, operation.limit->params.period);
    if (!record.Reserve(edit)) std::abort();  // some hundred bytes
  }
  // Who brings no id holds under one that nobody else has, until his lease runs out.
  const Hash128 id =
      asker.permit != nullptr
          ? asker.permit->id
          : Hash128{static_cast<uint64_t>(core::Permits::FenceOf(operation.charge)), operation.name.low};
  switch (edit.permit) {
    case core::PermitChange::kNone:
      break;
    case core::PermitChange::kGrant:
      record.Leave(id);
      record.Grant(core::HolderOf(operation.charge, id),
                   asker.permit == nullptr ? std::string_view() : asker.permit->holder);
      break;
    case core::PermitChange::kRelease:
      record.Remove(id);
      break;
    case core::PermitChange::kQueue:
      record.Queue(id, now + asker.permit->queue_for, operation.cost, asker.post);
      break;
    case core::PermitChange::kLeave:
      record.Leave(id);
      break;
  }
  record.RaiseFence(edit.state.before);
  slot.Set(number, Field(edit.state.stamp.us), BindingOf(*operation.limit).params);
  ExpectIdle(shard, record.IdleAt(operation.limit->params.period).us);
}

void BucketTable::Erase(const Hash128& name) {
  Shard& shard = shards_[ShardOf(name)];
  Slot* const slot = shard.slots.Find(name);
  if (slot != nullptr) EraseSlot(shard, slot);
}

void BucketTable::EraseSlot(Shard& shard, Slot* slot) {
  Drop(shard, *slot);
  shard.slots.Erase(slot);
  keys_.fetch_sub(1, std::memory_order_relaxed);
}

bool BucketTable::Restore(const Hash128& name, uint32_t params, const core::BucketState& state,
                          std::span<const core::LogRun> runs) {
  Shard& shard = shards_[ShardOf(name)];
  if (shard.slots.Find(name) != nullptr || !TryReserveKeys(1)) return false;
  while (!shard.slots.HasRoom(1)) {
    if (!shard.slots.Grow()) return false;
  }
  const core::LimitParams& limit = (*params_)[params].params;
  int64_t value = state.value;
  if (limit.algorithm == Algorithm::kSlidingWindow) {
    if (!shard.windows.Reserve(1)) return false;
    value = shard.windows.Allocate();
    shard.windows[static_cast<size_t>(value)] = {state.value, state.before};
  } else if (limit.algorithm == Algorithm::kSlidingLog) {
    if (!shard.logs.Reserve(1)) return false;
    value = shard.logs.Allocate();
    if (!shard.logs[static_cast<size_t>(value)].Assign(runs, state.value)) return false;
  }
  params_->AddReference(params);
  shard.slots.Insert(name)->Set(value, state.stamp.us, params);
  ExpectIdle(shard, core::IdleAt(limit, state).us);
  return true;
}

bool BucketTable::RestorePermits(const Hash128& name, uint32_t params, const core::BucketState& state,
                                 std::span<const KnownHolder> holders, EngineTime now) {
  Shard& shard = shards_[ShardOf(name)];
  Slot* slot = shard.slots.Find(name);
  const Micros lease = (*params_)[params].params.period;
  if (slot == nullptr) {
    if (!shard.permits.Reserve(1) || !TryReserveKeys(1)) return false;
    while (!shard.slots.HasRoom(1)) {
      if (!shard.slots.Grow()) return false;
    }
    const uint32_t number = shard.permits.Allocate();
    shard.permits[number].Begin();
    params_->AddReference(params);
    slot = shard.slots.Insert(name);
    slot->Set(number, 0, params);
  } else if (slot->params() != params) {
    return false;
  }
  HolderRecord& record = shard.permits[static_cast<size_t>(slot->value())];
  record.Open(now, lease);
  record.RaiseFence(state.before);
  core::BucketEdit grant;
  grant.permit = core::PermitChange::kGrant;
  for (const KnownHolder& known : holders) {
    if (known.holder.expires_at + lease <= now) continue;
    if (record.Find(known.holder.id) != nullptr || !record.Reserve(grant)) return false;
    record.Grant(known.holder, known.name);
  }
  ExpectIdle(shard, record.IdleAt(lease).us);
  return true;
}

}  // namespace penstock::engine
