#include "latencies.h"

#include <gtest/gtest.h>

namespace penstock::app {
namespace {

TEST(Latencies, NothingHasNoPercentile) { EXPECT_EQ(Latencies().Percentile(0.5), 0u); }

TEST(Latencies, SmallValuesAreExact) {
  Latencies latencies;
  for (uint64_t us = 1; us <= 100; ++us) latencies.Add(us);
  EXPECT_EQ(latencies.Percentile(0.5), 50u);
  EXPECT_EQ(latencies.Percentile(0.99), 99u);
  EXPECT_EQ(latencies.Percentile(1), 100u);
  EXPECT_EQ(latencies.max_us(), 100u);
}

TEST(Latencies, EveryValueComesBackWithinItsBucketsWidth) {
  for (uint64_t us = 1; us < (uint64_t{1} << 32); us = us * 3 + 1) {
    Latencies latencies;
    latencies.Add(us);
    latencies.Add(uint64_t{1} << 33);  // beyond: counted in the last bucket
    const uint64_t bound = latencies.Percentile(0.5);
    EXPECT_GE(bound, us);
    EXPECT_LE(bound, us + us / 64 + 1);
    EXPECT_EQ(latencies.max_us(), uint64_t{1} << 33);
  }
}

TEST(Latencies, MergedCountsAreSums) {
  Latencies a;
  Latencies b;
  a.Add(10, 90);
  b.Add(1'000, 10);
  a.Merge(b);
  EXPECT_EQ(a.count(), 100u);
  EXPECT_EQ(a.Percentile(0.9), 10u);
  EXPECT_GE(a.Percentile(0.91), 1'000u);
}

}  // namespace
}  // namespace penstock::app
