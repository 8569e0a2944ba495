// The lock of one shard: one word, taken with one atomic exchange and given back with a plain store, because the
// critical section is about as short as a mutex's own work. Who must wait spins a little, then yields, then sleeps:
// the longest holds (growth, the copy of one shard for a snapshot) last well under a few milliseconds.
//
// Not recursive; several locks are taken in ascending order of their shards.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace penstock::engine {

class PENSTOCK_TSA(capability("mutex")) ShardLock {
 public:
  void Lock() PENSTOCK_TSA(acquire_capability()) {
    if (word_.exchange(kHeld, std::memory_order_acquire) != kFree) [[unlikely]]
      Wait();
  }
  bool TryLock() PENSTOCK_TSA(try_acquire_capability(true)) {
    return word_.exchange(kHeld, std::memory_order_acquire) == kFree;
  }
  void Unlock() PENSTOCK_TSA(release_capability()) { word_.store(kFree, std::memory_order_release); }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  // Returns when the lock is held.
  void Wait();

  std::atomic<uint32_t> word_{kFree};
};

}  // namespace penstock::engine
