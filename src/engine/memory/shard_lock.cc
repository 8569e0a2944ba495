#include "engine/memory/shard_lock.h"

#include <sched.h>

#include <ctime>

namespace penstock::engine {
namespace {

constexpr int kSpins = 64;
constexpr int kYields = 64;
constexpr long kSleepNs = 50'000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

void ShardLock::Wait() {
  for (int round = 0;; ++round) {
    // Look before the exchange: a waiter that only reads leaves the line with the holder.
    if (word_.load(std::memory_order_relaxed) == kFree &&
        word_.exchange(kHeld, std::memory_order_acquire) == kFree) {
      return;
    }
    if (round < kSpins) {
      Pause();
    } else if (round < kSpins + kYields) {
      sched_yield();
    } else {
      const timespec nap{0, kSleepNs};
      nanosleep(&nap, nullptr);
    }
  }
}

}  // namespace penstock::engine
