#include "service/failover/seen_table.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/test_seed.h"
#include "core/group.h"
#include "core/ticks.h"
#include "engine/memory/testing.h"

namespace penstock::service {
namespace {

constexpr EngineTime kNow{1'800'057'600'000'000};

TEST(SeenTable, RemembersTheLastUseAndForgetsNone) {
  SeenTable table(16);
  const Hash128 name{1, 2};
  EXPECT_FALSE(table.Find(name));
  table.Note(name, {kNow, 5, 0});
  table.Note({3, 2}, {kNow, 6, 0});  // of the same set
  EXPECT_EQ(table.Find(name), (SeenUse{kNow, 5, 0}));
  table.Note(name, {kNow + Seconds(1), 7, 2});
  EXPECT_EQ(table.Find(name), (SeenUse{kNow + Seconds(1), 7, 2}));
  table.Note(name, {kNow + Seconds(2), 0, 0});
  EXPECT_FALSE(table.Find(name));
  EXPECT_EQ(table.Find({3, 2}), (SeenUse{kNow, 6, 0}));
}

TEST(SeenTable, OfTwoLoopsTheLaterWordCountsButNotAfterAClockSteppedBack) {
  SeenTable table(16);
  const Hash128 name{1, 2};
  table.Note(name, {kNow, 5, 0});
  table.Note(name, {kNow - Micros{10}, 4, 0});
  EXPECT_EQ(table.Find(name)->used, 5);
  table.Note(name, {kNow - Seconds(10), 3, 0});
  EXPECT_EQ(table.Find(name)->used, 3);
}

TEST(SeenTable, IsBoundedAndPushesOutTheOldest) {
  SeenTable table(4);
  for (uint64_t i = 1; i <= 5; ++i) table.Note({i, 0}, {kNow + Seconds(static_cast<int64_t>(i)), 1, 0});
  EXPECT_FALSE(table.Find({1, 0}));
  for (uint64_t i = 2; i <= 5; ++i) EXPECT_TRUE(table.Find({i, 0})) << i;
}

TEST(SeenTable, NoEntriesNoTable) {
  SeenTable table(0);
  table.Note({1, 2}, {kNow, 5, 0});
  EXPECT_FALSE(table.Find({1, 2}));
}

// The verdict tells a token bucket's use to the token.
TEST(SeenUseTest, AVerdictTellsTheWholeTokens) {
  Random random(TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    core::RateSpec spec = engine::testing::Rate(core::Algorithm::kTokenBucket, random.Between(1, 3'000'000),
                                                Millis(random.Between(1, 5'000)));
    spec.burst = random.Between(1, 100);
    core::Limit limit;
    limit.params = *core::CompileRate(spec);
    const core::LimitParams& params = limit.params;
    core::Operation operation;
    operation.limit = &limit;
    operation.bucket.present = true;
    operation.bucket.params = &params;
    const int64_t most =
        random.Below(4) == 0 ? 3 * params.capacity * params.unit_cost : params.capacity * params.unit_cost;
    operation.bucket.state = {.stamp = kNow, .value = random.Between(0, most)};
    core::DecideGroup({&operation, 1}, {}, kNow);
    const int64_t tokens = core::CeilDiv(operation.bucket.state.value, params.unit_cost);
    const SeenUse use = UseOf(operation, kNow);
    ASSERT_EQ(use.stamp, kNow);
    ASSERT_GE(use.used, std::min(tokens, params.capacity));
    if (tokens <= params.capacity) {
      ASSERT_EQ(use.used, tokens);
    } else {
      ASSERT_LE(use.used, tokens + params.drain / params.unit_cost + 1);
      // Above the capacity one tick's drain is not told apart.
      ASSERT_GE(use.used, std::min(tokens, params.capacity));
    }
  }
}

}  // namespace
}  // namespace penstock::service
