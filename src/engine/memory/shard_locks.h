// The locks of all shards that a group's buckets are in.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "engine/memory/bucket_table.h"

namespace penstock::engine {

// Holds the locks of all shards of some names, taken in ascending order.
class ShardLocks {
 public:
  ShardLocks(BucketTable& table, std::span<const core::Operation> operations) NO_THREAD_SAFETY_ANALYSIS
      : table_(table) {
    for (const core::Operation& operation : operations) {
      const auto shard = static_cast<uint16_t>(table.ShardOf(operation.name));
      const auto at = std::lower_bound(shards_.begin(), shards_.begin() + size_, shard);
      if (at != shards_.begin() + size_ && *at == shard) continue;
      std::copy_backward(at, shards_.begin() + size_, shards_.begin() + size_ + 1);
      *at = shard;
      ++size_;
    }
    for (size_t i = 0; i < size_; ++i) table_.shard(shards_[i]).lock.Lock();
  }
  ~ShardLocks() NO_THREAD_SAFETY_ANALYSIS {
    for (size_t i = size_; i-- > 0;) table_.shard(shards_[i]).lock.Unlock();
  }
  ShardLocks(const ShardLocks&) = delete;
  ShardLocks& operator=(const ShardLocks&) = delete;

 private:
  static_assert(BucketTable::kMaxShards <= UINT16_MAX);
  BucketTable& table_;
  std::array<uint16_t, SlotTable::kMaxRoom> shards_;
  size_t size_ = 0;
};

}  // namespace penstock::engine
