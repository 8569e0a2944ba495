#include "service/failover/share.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/test_seed.h"
#include "engine/memory/testing.h"

namespace penstock::service {
namespace {

using core::Algorithm;
using core::LimitParams;
using engine::Fleet;
using engine::testing::Rate;

LimitParams Params(const core::RateSpec& spec) { return *core::CompileRate(spec); }

int64_t ShareCapacity(const LimitParams& params, uint32_t nodes, std::optional<uint32_t> index) {
  const std::optional<LimitParams> share = ShareOf(params, {nodes, index, true});
  return share ? share->capacity : 0;
}

TEST(Share, TheRateIsExactAndTheRemainderGoesToTheFirst) {
  const LimitParams params = Params(Rate(Algorithm::kTokenBucket, 7, Seconds(60)));
  const std::optional<LimitParams> share = ShareOf(params, {3, 0, true});
  EXPECT_EQ(share->count, 7);
  EXPECT_EQ(share->period, Seconds(180));
  EXPECT_EQ(share->capacity, 3);
  EXPECT_EQ(ShareCapacity(params, 3, 1), 2);
  EXPECT_EQ(ShareCapacity(params, 3, std::nullopt), 2);
  EXPECT_EQ(ShareOf(params, {1, std::nullopt, true}), params);
}

TEST(Share, AShareOfNothingIsNone) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    const LimitParams params = Params(Rate(algorithm, 2, Seconds(60)));
    EXPECT_EQ(ShareCapacity(params, 3, 1), 1);
    EXPECT_FALSE(ShareOf(params, {3, 2, true}));
    EXPECT_FALSE(ShareOf(params, {3, std::nullopt, true}));
  }
}

TEST(Share, WhatCannotBeHeldExactlyIsNone) {
  const LimitParams params = Params(Rate(Algorithm::kTokenBucket, 1, Seconds(4'000'000'000)));  // 126 years
  EXPECT_FALSE(ShareOf(params, {2, 0, true}));
}

TEST(Share, WithoutANumberALimitIsItsOwnShare) {
  core::RateSpec spec;
  spec.kind = core::RateKind::kUnlimited;
  EXPECT_EQ(ShareOf(Params(spec), {5, 4, true}), Params(spec));
}

TEST(Share, AllSharesTogetherAreTheLimit) {
  Random random(TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(1, 40));
    const auto algorithm = static_cast<Algorithm>(random.Below(4));
    core::RateSpec spec = Rate(algorithm, random.Between(1, 10'000), Millis(random.Between(1, 1'000'000)));
    if (algorithm == Algorithm::kTokenBucket) spec.burst = random.Between(1, 10'000);
    const LimitParams params = Params(spec);
    int64_t sum = 0;
    for (uint32_t index = 0; index < nodes; ++index) {
      const std::optional<LimitParams> share = ShareOf(params, {nodes, index, true});
      if (!share) continue;
      sum += share->capacity;
      if (algorithm != Algorithm::kTokenBucket) continue;
      // n * drain / (unit_cost * tick) is the limit's.
      __extension__ using Wide = __int128;
      ASSERT_EQ(static_cast<Wide>(nodes) * share->drain * params.unit_cost * params.tick.count,
                static_cast<Wide>(params.drain) * share->unit_cost * share->tick.count);
    }
    ASSERT_EQ(sum, params.capacity) << nodes << " nodes";
  }
}

}  // namespace
}  // namespace penstock::service
