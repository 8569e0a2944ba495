// What was answered under a request id (rule E10): the verdicts and charges of one request, kept for as long as the
// caller asked, so that a repeat gets the same answer and a settle knows what was taken. Bounded in stored verdicts;
// when it is full, requests are decided without, and told so.
//
// Thread contract: a record is used under the lock of its shard (LockOf), which is taken before any bucket's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/operation.h"
#include "engine/memory/shard_lock.h"

namespace penstock::engine {

struct StoredOperation {
  Hash128 name;  // of the bucket
  core::Verdict verdict;
  core::Charge charge;
};

struct IdRecord {
  uint64_t fingerprint = 0;
  EngineTime expires;
  Hash128 permit_id;  // of the permit that was granted, if one was
  std::vector<StoredOperation> operations;

  StoredOperation* Find(const Hash128& name) {
    for (StoredOperation& operation : operations) {
      if (operation.name == name) return &operation;
    }
    return nullptr;
  }
};

class RequestIds {
 public:
  // At most `max_operations` stored verdicts in all: an id of a request with three limits counts three.
  explicit RequestIds(size_t max_operations) : max_per_shard_((max_operations + kShards - 1) / kShards) {}

  ShardLock& LockOf(const Hash128& id) { return ShardOf(id).lock; }
  // Under the lock. Null when unknown or expired; the pointer holds while the lock is held.
  IdRecord* Find(const Hash128& id, EngineTime now);
  // Under the lock, the id not being kept. Null when there is no room.
  IdRecord* Insert(const Hash128& id, size_t operations, EngineTime expires, EngineTime now);

  size_t size() const;

  // Visits all records that have not expired, one shard at a time under its lock; for a snapshot.
  template <class Visit>
  void ForEach(EngineTime now, Visit&& visit) NO_THREAD_SAFETY_ANALYSIS {
    for (Shard& shard : shards_) {
      shard.lock.Lock();
      for (const auto& [id, record] : shard.records) {
        if (record.expires > now) visit(id, record);
      }
      shard.lock.Unlock();
    }
  }

 private:
  static constexpr size_t kShards = 64;
  // Expired ids dropped with each new one: more than one, so that they leave faster than they come.
  static constexpr int kDropsPerInsert = 4;

  struct Expiry {
    EngineTime at;
    Hash128 id;
  };
  struct NameHasher {
    size_t operator()(const Hash128& name) const { return static_cast<size_t>(name.low); }
  };
  struct alignas(64) Shard {
    mutable ShardLock lock;
    std::unordered_map<Hash128, IdRecord, NameHasher> records;
    std::vector<Expiry> expiries;  // a heap, the earliest first; one for each record
    size_t operations = 0;         // stored verdicts
  };

  Shard& ShardOf(const Hash128& id) { return shards_[id.high % kShards]; }
  // Drops at most `most` expired records.
  static void DropExpired(Shard& shard, EngineTime now, int most);

  const size_t max_per_shard_;
  Shard shards_[kShards];
};

}  // namespace penstock::engine
