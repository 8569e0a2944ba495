// All buckets of the memory engine: shards of slots, each with a lock of its own, chosen by the top bits of a bucket's
// name. Keeps the bound on keys over all shards, and drops what is idle (the same as absent) before it grows or
// refuses; nothing else is ever dropped.
//
// An operation names its bucket (Operation::name) before it comes here.
//
// Thread contract: the methods of the first part may be called by any thread; those of the second under the locks of
// the shards of all names given. Locks are taken in ascending order of shards.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/hash.h"
#include "base/time.h"
#include "core/group.h"
#include "engine/memory/binding.h"
#include "engine/memory/holder_record.h"
#include "engine/memory/log_record.h"
#include "engine/memory/param_table.h"
#include "engine/memory/shard_lock.h"
#include "engine/memory/slab.h"
#include "engine/memory/slot_table.h"

namespace penstock::engine {

struct WindowRecord {
  int64_t value = 0;
  int64_t before = 0;
};

struct ShardCounters {
  uint64_t evictions = 0;
  uint64_t refused_full = 0;
  uint64_t saturated = 0;
  uint64_t stale = 0;
  int64_t reclaimed = 0;  // permits whose lease ran out
};

// Whole cache lines, and a power of two so that an index is a shift.
struct alignas(256) Shard {
  ShardLock lock;
  SlotTable slots;
  // No slot is idle before this instant. Written under the lock, read by any thread that looks for idle slots.
  std::atomic<int64_t> next_idle_us{INT64_MAX};
  ShardCounters counters;
  Slab<WindowRecord> windows;  // sliding windows: the slot's value is the record's number
  Slab<LogRecord> logs;        // sliding logs: likewise
  Slab<HolderRecord> permits;  // permits: likewise
  // A sweep that found little is not repeated at once (MaySweep).
  int64_t swept_at_us = INT64_MIN;
  uint64_t swept_slots = 0;
  uint64_t asked_since_sweep = 0;
};

// Who asks, where permits are decided.
struct Asker {
  const core::PermitAsk* permit = nullptr;  // null: he brings nothing to hold
  std::shared_ptr<WakePost> post;           // where he hears, if he is to wait
};

class BucketTable {
 public:
  static constexpr size_t kMaxShards = 4'096;

  // `shards` is a power of two, at most kMaxShards.
  BucketTable(size_t shards, uint64_t max_keys, std::shared_ptr<ParamTable> params);
  ~BucketTable();

  size_t shard_count() const { return size_t{1} << shard_bits_; }
  size_t ShardOf(const Hash128& name) const {
    return static_cast<size_t>((name.high >> 1) >> (63 - shard_bits_));
  }
  Shard& shard(size_t index) { return shards_[index]; }
  // Of the operation's bucket.
  Shard& ShardFor(const core::Operation& operation) { return shards_[ShardOf(operation.name)]; }
  void Prefetch(const Hash128& name) const { shards_[ShardOf(name)].slots.Prefetch(name); }
  uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }
  uint64_t max_keys() const { return max_keys_; }
  ParamTable& params() { return *params_; }

  // Under the locks.

  // Finds the bucket and fills the operation's view of it; null when absent.
  // A bucket of permits is brought to `now` first.
  Slot* Look(Shard& shard, core::Operation& operation, EngineTime now, const core::PermitAsk* permit) {
    Slot* const slot = shard.slots.Find(operation.name);
    core::BucketView& view = operation.bucket;
    view.present = slot != nullptr;
    if (slot == nullptr) {
      view.runs = {};
      return nullptr;
    }
    const core::Limit& limit = *operation.limit;
    if (slot->params() == BindingOf(limit).params && InSlot(limit.params.algorithm)) [[likely]] {
      view.version = limit.version;
      view.params = &limit.params;
      view.state = {{slot->stamp()}, slot->value(), 0};
      return slot;
    }
    return View(shard, *slot, operation, now, permit) ? slot : nullptr;
  }
  // The holders of a bucket that was just looked up; null when the slot is none of permits.
  HolderRecord* PermitsIn(Shard& shard, const Slot& slot) {
    if ((*params_)[slot.params()].params.algorithm != core::Algorithm::kPermits) return nullptr;
    return &shard.permits[static_cast<size_t>(slot.value())];
  }

  // Makes room for everything that the edits write, so that Store cannot fail. False when the table is full of keys in
  // use: then nothing has changed. The edits of shadow limits give way first (their charge is dropped).
  bool MakeRoom(std::span<core::Operation> operations, EngineTime now);
  // Carries out the operation's edit. Precondition: MakeRoom.
  void Store(const core::Operation& operation, EngineTime now, const Asker& asker);
  // Both for the one operation whose slot was just looked up (null: absent). False when full.
  bool StoreOne(Shard& shard, Slot* slot, const core::Operation& operation, EngineTime now,
                const Asker& asker);
  void Erase(const Hash128& name);
  // A slot of the shard was written that will be idle at that instant.
  static void ExpectIdle(Shard& shard, int64_t idle_us) {
    if (idle_us < shard.next_idle_us.load(std::memory_order_relaxed)) {
      shard.next_idle_us.store(idle_us, std::memory_order_relaxed);
    }
  }

  // Puts back a bucket from a snapshot; false when full. The record's state was checked by the caller.
  bool Restore(const Hash128& name, uint32_t params, const core::BucketState& state,
               std::span<const core::LogRun> runs);
  // The same for holders of permits; what is there already stays. False when full, or one of them holds already.
  bool RestorePermits(const Hash128& name, uint32_t params, const core::BucketState& state,
                      std::span<const KnownHolder> holders, EngineTime now);
  // Reads a slot's whole state.
  core::BucketState StateOf(const Shard& shard, const Slot& slot, core::Algorithm algorithm) const;

 private:
  // Whether the whole state stands in the slot.
  static bool InSlot(core::Algorithm algorithm) { return algorithm <= core::Algorithm::kFixedWindow; }
  // The other buckets' view. False when the slot is not of the limit's algorithm, which no limit's own bucket is: then it is erased.
  bool View(Shard& shard, Slot& slot, core::Operation& operation, EngineTime now,
            const core::PermitAsk* permit);
  bool TryReserveKeys(uint64_t count);
  bool ReserveKeys(uint64_t count, std::span<const core::Operation> keep, EngineTime now);
  bool ReserveRecord(Shard& shard, Slot* slot, const core::Operation& operation, size_t fresh);
  // Room for `count` more slots in the shard: drops idle ones, then grows.
  bool ReserveSlots(Shard& shard, size_t count, std::span<const core::Operation> keep, EngineTime now);
  bool MaySweep(Shard& shard, EngineTime now) const;
  // Drops the shard's idle slots except those named; returns how many.
  uint64_t Sweep(Shard& shard, std::span<const core::Operation> keep, EngineTime now);
  void Put(Shard& shard, Slot& slot, bool fresh, const core::Operation& operation, EngineTime now,
           const Asker& asker);
  void PutPermits(Shard& shard, Slot& slot, bool fresh, const core::Operation& operation, EngineTime now,
                  const Asker& asker);
  EngineTime IdleAt(const Shard& shard, const Slot& slot) const;
  // Gives back what the slot refers to.
  void Drop(Shard& shard, const Slot& slot);
  void EraseSlot(Shard& shard, Slot* slot);

  const int shard_bits_;
  const uint64_t max_keys_;
  const std::shared_ptr<ParamTable> params_;
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<uint64_t> keys_{
      0};  // slots in all shards and those about to be inserted; never above max_keys_
};

}  // namespace penstock::engine
