// Latencies counted in buckets that are at most 1.6 % wide, from 1 us to 71 min: percentiles without keeping every
// value.
//
// Thread contract: one thread; Merge adds another thread's when that one is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::app {

class Latencies {
 public:
  void Add(uint64_t us, uint64_t count = 1);
  void Merge(const Latencies& other);

  uint64_t count() const { return count_; }
  uint64_t max_us() const { return max_us_; }
  // The smallest bound that at least this share (0 to 1) of all values does not pass; 0 when there are none.
  uint64_t Percentile(double share) const;

 private:
  static constexpr int kSubBits = 6;  // each doubling is cut into this power of two
  static constexpr size_t kBuckets = size_t{33 - kSubBits} << kSubBits;

  static size_t BucketOf(uint64_t us);
  static uint64_t UpperBound(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_us_ = 0;
};

}  // namespace penstock::app
