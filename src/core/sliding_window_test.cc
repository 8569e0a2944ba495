#include "core/sliding_window.h"

#include <gtest/gtest.h>

#include "core/testing/bucket_book.h"
#include "penstock/request.h"

namespace penstock::core {
namespace {

using testing::TestLimit;

constexpr EngineTime kStart{1'785'000'000'000'000};
static_assert(kStart.us % 180'000'000 == 120'000'000);

RateSpec Spec(int64_t count, Micros period) {
  return {.algorithm = Algorithm::kSlidingWindow, .count = count, .period = period};
}

TEST(SlidingWindow, TheFirstOfOnePerTenSecondsIsAllowed) {
  TestLimit limit(Spec(1, Seconds(10)));
  EXPECT_EQ(limit.Decide(kStart, 1).outcome, Outcome::kAllowed);
  const Verdict refused = limit.Decide(kStart, 1);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, Seconds(20));  // the next window is weighed down to nothing only at its end
}

TEST(SlidingWindow, TheWindowBeforeCountsByTheShareStillCovered) {
  TestLimit limit(Spec(100, Seconds(60)));
  limit.Decide(kStart + Seconds(59), 100);
  const EngineTime half = kStart + Seconds(90);
  EXPECT_EQ(limit.Decide(half, 0).remaining, 50);
  EXPECT_EQ(limit.Decide(half + Micros{1}, 0).remaining, 50);  // 49.99… of the 100 still count: 50
  EXPECT_EQ(limit.Decide(half, 51).retry_after, Micros{600'000});
  EXPECT_EQ(limit.Decide(half + Micros{599'999}, 51).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(half + Micros{600'000}, 51).outcome, Outcome::kAllowed);
  EXPECT_EQ(limit.bucket.state().before, 100);
  EXPECT_EQ(limit.bucket.state().value, 51);
}

TEST(SlidingWindow, StateOutlivesTwoWindows) {
  TestLimit limit(Spec(10, Seconds(180)));
  const EngineTime edge = kStart + Seconds(60);
  limit.Decide(edge, 10);
  EXPECT_EQ(limit.bucket.IdleAt(), edge + Seconds(360));
  EXPECT_EQ(limit.Decide(edge + Seconds(180), 0).remaining, 0);
  EXPECT_EQ(limit.Decide(edge + Micros{359'999'999}, 0).remaining, 9);
  EXPECT_EQ(limit.Decide(edge + Micros{359'999'999}, 0).reset_after, Micros{1});
  EXPECT_EQ(limit.Decide(edge + Seconds(360), 0).remaining, 10);
  EXPECT_EQ(limit.Decide(edge + Seconds(360), 0).reset_after, Micros{});
}

TEST(SlidingWindow, TicksOfAMillisecondCountFromTheirEdges) {
  TestLimit limit(Spec(1'000'000, Seconds(86'400)));
  ASSERT_EQ(limit.limit.params.tick, Millis(1));
  const EngineTime day{kStart.us / 86'400'000'000 * 86'400'000'000};
  limit.Decide(day, 1'000'000);
  const EngineTime next = day + Seconds(86'400);
  const Verdict refused = limit.Decide(next + Micros{500}, 1);
  EXPECT_EQ(refused.retry_after, Micros{87'000 - 500});  // 86.4 ms a unit, so the 87th edge
  EXPECT_EQ(limit.Decide(next + Micros{86'999}, 1).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(next + Micros{87'000}, 1).outcome, Outcome::kAllowed);
}

TEST(SlidingWindow, AClockThatStepsBackBlocksAtMostItsSize) {
  TestLimit limit(Spec(2, Seconds(60)));
  limit.Decide(kStart, 2);
  EXPECT_EQ(limit.Decide(kStart + Seconds(70), 1).retry_after, Seconds(20));
  EXPECT_EQ(limit.Decide(kStart - Seconds(100), 1).retry_after, Seconds(190));
}

TEST(SlidingWindow, AnUndoReachesItsWindowAlsoWhenThatIsTheOneBefore) {
  TestLimit limit(Spec(10, Seconds(60)));
  limit.Decide(kStart, 8);
  const Charge charge = limit.charge;
  EXPECT_EQ(charge.window, kStart);
  limit.Decide(kStart + Seconds(60), 1);
  EXPECT_EQ(limit.bucket.state().before, 8);
  limit.Adjust(kStart + Seconds(60), charge, -5);
  EXPECT_EQ(limit.bucket.state().before, 3);
  EXPECT_EQ(limit.bucket.state().value, 1);
  limit.Adjust(kStart + Seconds(60), charge, 2);
  EXPECT_EQ(limit.bucket.state().before, 5);
  limit.Decide(kStart + Seconds(120), 1);
  EXPECT_EQ(limit.Adjust(kStart + Seconds(120), charge, 7).remaining, 8);  // two windows ago: nothing
}

TEST(SlidingWindow, ARefundReachesOnlyTheCurrentWindow) {
  TestLimit limit(Spec(10, Seconds(60)));
  limit.Decide(kStart, 8);
  limit.Decide(kStart + Seconds(60), 1);
  EXPECT_EQ(limit.Decide(kStart + Seconds(60), -5).taken, -1);
  EXPECT_EQ(limit.bucket.state().before, 8);
}

TEST(SlidingWindow, UseByForceIsHeldWhereAProductWouldPassTheLargestExactNumber) {
  TestLimit limit(Spec(1, Seconds(30 * 86'400)));
  EXPECT_FALSE(limit.Decide(kStart, 1'737, {.force = true}).saturated);
  EXPECT_TRUE(limit.Decide(kStart, 1, {.force = true}).saturated);
  EXPECT_EQ(limit.bucket.state().value, 1'737);
}

TEST(SlidingWindowChange, BothWindowsBecomeUseOfTheNewOne) {
  TestLimit limit(Spec(100, Seconds(60)));
  limit.Decide(kStart, 40);
  limit.Decide(kStart + Seconds(60), 10);
  limit.Change(Spec(100, Seconds(120)));
  const EngineTime now = kStart + Seconds(75);
  EXPECT_EQ(limit.Decide(now, 0).remaining, 60);  // 10 and three quarters of 40
  EXPECT_EQ(limit.bucket.state().value, 40);
  EXPECT_EQ(limit.bucket.state().before, 0);
  EXPECT_EQ(limit.bucket.state().stamp.us % 120'000'000, 0);
}

TEST(SlidingWindowChange, AnotherCountLeavesTheWindowsAsTheyAre) {
  TestLimit limit(Spec(100, Seconds(60)));
  limit.Decide(kStart, 40);
  limit.Decide(kStart + Seconds(60), 10);
  limit.Change(Spec(50, Seconds(60)));
  EXPECT_EQ(limit.Decide(kStart + Seconds(75), 0).remaining, 10);
  EXPECT_EQ(limit.bucket.state().before, 40);
}

TEST(SlidingWindowChange, AFinerTickHoldsLess) {
  TestLimit limit(Spec(1'000'000, Seconds(86'400)));  // ticks of 1 ms
  limit.Decide(kStart, 2'000'000, {.force = true});
  limit.Change(Spec(10, Seconds(86'400)));  // 1 us: at most 52,125 fit
  EXPECT_TRUE(limit.Decide(kStart, 0).saturated);
  EXPECT_EQ(limit.bucket.state().value, kMaxExact / 86'400'000'000);
}

}  // namespace
}  // namespace penstock::core
