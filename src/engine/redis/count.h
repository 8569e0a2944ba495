// One more of something that loops count and any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::engine::redis {

inline void Count(std::atomic<uint64_t>& counter, uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace penstock::engine::redis
