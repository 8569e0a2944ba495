// A latency histogram that one thread writes and any thread reads, with Prometheus' cumulative buckets.
//
// Thread contract: Record by the owner's thread alone; AddTo by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace penstock {

// Upper bounds in microseconds; one more bucket takes what is above the last.
inline constexpr std::array<int64_t, 16> kLatencyBoundsUs = {
    5, 10, 25, 50, 100, 250, 500, 1'000, 2'500, 5'000, 10'000, 25'000, 50'000, 100'000, 250'000, 1'000'000};

struct LatencySums {
  std::array<uint64_t, kLatencyBoundsUs.size() + 1> buckets{};  // not cumulative
  uint64_t count = 0;
  uint64_t total_us = 0;
};

class LatencyHistogram {
 public:
  // `count` events that each took `latency`.
  void Record(Micros latency, uint64_t count) {
    size_t bucket = 0;
    while (bucket < kLatencyBoundsUs.size() && latency.count > kLatencyBoundsUs[bucket]) ++bucket;
    Add(buckets_[bucket], count);
    if (latency.count > 0) Add(total_us_, static_cast<uint64_t>(latency.count) * count);
  }

  void AddTo(LatencySums& sums) const {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const uint64_t n = buckets_[i].load(std::memory_order_relaxed);
      sums.buckets[i] += n;
      sums.count += n;
    }
    sums.total_us += total_us_.load(std::memory_order_relaxed);
  }

 private:
  // One writer: a plain load and store instead of a locked addition.
  static void Add(std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kLatencyBoundsUs.size() + 1> buckets_{};
  std::atomic<uint64_t> total_us_{0};
};

}  // namespace penstock
