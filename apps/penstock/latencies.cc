#include "latencies.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace penstock::app {

// Below 2^kSubBits a bucket a microsecond; above, kSubBits bits after the leading one choose the bucket.
size_t Latencies::BucketOf(uint64_t us) {
  constexpr uint64_t kLargest = (uint64_t{1} << 32) - 1;
  us = std::min(us, kLargest);
  if (us < (uint64_t{1} << kSubBits)) return static_cast<size_t>(us);
  const int shift = static_cast<int>(std::bit_width(us)) - 1 - kSubBits;
  return static_cast<size_t>((uint64_t(shift) << kSubBits) + (us >> shift));
}

uint64_t Latencies::UpperBound(size_t bucket) {
  if (bucket < (size_t{2} << kSubBits)) return bucket;
  const uint64_t shift = (bucket >> kSubBits) - 1;
  const uint64_t mantissa = bucket - (shift << kSubBits);
  return ((mantissa + 1) << shift) - 1;
}

void Latencies::Add(uint64_t us, uint64_t count) {
  buckets_[BucketOf(us)] += count;
  count_ += count;
  max_us_ = std::max(max_us_, us);
}

void Latencies::Merge(const Latencies& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_us_ = std::max(max_us_, other.max_us_);
}

uint64_t Latencies::Percentile(double share) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= wanted && seen > 0) return std::min(UpperBound(i), max_us_);
  }
  return max_us_;
}

}  // namespace penstock::app
