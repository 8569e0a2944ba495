// The buckets that this node decides, or has decided, by itself, and what the engine must be told of them. One book for
// all loops, since the local engine's buckets are the node's.
//
// Thread contract: any thread. A shard's lock is held while the local engine is asked about one of its buckets (the
// engine's own locks come after it), so that a bucket has its seed before anyone decides.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "service/failover/local_use.h"
#include "service/failover/share_cache.h"

namespace penstock::service {

struct LocalBucket {
  std::vector<std::string> key;
  std::shared_ptr<const Share> share;
  const core::Limit* limit = nullptr;  // as the engine knows it; kept by `policy` or by `share`
  std::shared_ptr<const void> policy;
  LocalUse use;
  uint32_t pins = 0;       // decisions under way
  uint32_t in_flight = 0;  // adjustments that the engine was sent
  int failures = 0;        // in a row
  SteadyTime next_try;     // to tell the engine
};

class LocalBooks {
 public:
  static constexpr size_t kShards = 64;

  class Shard {
   public:
    Mutex mutex;

    LocalBucket* Find(const Hash128& name) REQUIRES(mutex) {
      const auto found = buckets_.find(name);
      return found == buckets_.end() ? nullptr : found->second.get();
    }
    LocalBucket& Add(const Hash128& name) REQUIRES(mutex) {
      order_.push_back(name);
      return *(buckets_[name] = std::make_unique<LocalBucket>());
    }
    // Of the bucket that Next gave last, or Add made last: the last in the order.
    void EraseLast() REQUIRES(mutex) {
      buckets_.erase(order_.back());
      order_.pop_back();
    }
    // Goes round: the bucket that was not looked at for the longest time; null when there is none.
    LocalBucket* Next(Hash128& name) REQUIRES(mutex) {
      if (order_.empty()) return nullptr;
      name = order_.front();
      order_.pop_front();
      order_.push_back(name);
      return Find(name);
    }
    size_t size() REQUIRES(mutex) { return order_.size(); }

   private:
    struct Hasher {
      size_t operator()(const Hash128& name) const { return name.low; }
    };
    // Invariant: order_ has the names of buckets_, each once.
    std::unordered_map<Hash128, std::unique_ptr<LocalBucket>, Hasher> buckets_ GUARDED_BY(mutex);
    std::deque<Hash128> order_ GUARDED_BY(mutex);
  };

  explicit LocalBooks(size_t max_buckets) : max_buckets_(max_buckets) {}

  Shard& ShardOf(const Hash128& name) { return shards_[name.high % kShards]; }
  // The shard whose turn it is to be gone through.
  Shard& NextShard() { return shards_[turn_.fetch_add(1, std::memory_order_relaxed) % kShards]; }

  // Of all shards together.
  bool TakePlace() {
    if (size_.fetch_add(1, std::memory_order_relaxed) < max_buckets_) return true;
    GivePlace();
    return false;
  }
  void GivePlace() { size_.fetch_sub(1, std::memory_order_relaxed); }
  size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  const size_t max_buckets_;
  std::atomic<size_t> size_{0};
  std::atomic<size_t> turn_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace penstock::service
