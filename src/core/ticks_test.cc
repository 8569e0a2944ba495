#include "core/ticks.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

TEST(Ticks, DivisionRoundsUp) {
  EXPECT_EQ(CeilDiv(0, 3), 0);
  EXPECT_EQ(CeilDiv(1, 3), 1);
  EXPECT_EQ(CeilDiv(3, 3), 1);
  EXPECT_EQ(CeilDiv(4, 3), 2);
}

TEST(Ticks, AProductThatIsTooLargeStandsAboveAllExactNumbers) {
  EXPECT_EQ(BoundedProduct(3, 5), 15);
  EXPECT_EQ(BoundedProduct(kMaxExact, 1), kMaxExact);
  EXPECT_EQ(BoundedProduct(kMaxExact, kMaxExact), kMaxExact + 1);
}

TEST(Ticks, AnInstantLiesInTheTickThatBeganLast) {
  EXPECT_EQ(TickIndex(1'999'999, {1}), 1'999'999);
  EXPECT_EQ(TickIndex(1'999'999, Millis(1)), 1'999);
  EXPECT_EQ(TickIndex(1'999'999, Seconds(1)), 1);
}

TEST(Ticks, LaterTicksAreCountedFromTheTickOfTheInstant) {
  EXPECT_EQ(AfterTicks({1'500}, 2, {1}), EngineTime{1'502});
  EXPECT_EQ(AfterTicks({1'500}, 2, Millis(1)), EngineTime{3'000});
  EXPECT_EQ(AfterTicks({1'500'000}, 2, Seconds(1)), EngineTime{3'000'000});
}

TEST(Ticks, NoInstantIsFurtherThanTheLongestSpan) {
  const EngineTime from{5'500};
  EXPECT_EQ(AfterTicks(from, kMaxExact, {1}), EngineTime{kMaxExact + 5'500});
  EXPECT_EQ(AfterTicks(from, kMaxExact, Millis(1)), EngineTime{kMaxExact + 5'500});
  EXPECT_EQ(AfterTicks(from, kMaxExact / 1'000 + 1, Millis(1)), EngineTime{kMaxExact + 5'500});
  EXPECT_EQ(AfterTicks(from, kMaxExact / 1'000, Millis(1)), EngineTime{(kMaxExact / 1'000 + 5) * 1'000});
  EXPECT_EQ(AfterTicks({5'999}, kMaxExact / 1'000, Millis(1)), EngineTime{(kMaxExact / 1'000 + 5) * 1'000});
}

TEST(Ticks, TheLaterOfTwoInstants) {
  EXPECT_EQ(Later({1}, {2}), EngineTime{2});
  EXPECT_EQ(Later({2}, {1}), EngineTime{2});
}

}  // namespace
}  // namespace penstock::core
