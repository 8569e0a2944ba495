#include "core/sliding_log.h"

#include <gtest/gtest.h>

#include "core/testing/bucket_book.h"
#include "core/testing/model.h"
#include "penstock/request.h"

namespace penstock::core {
namespace {

using testing::TestLimit;

constexpr EngineTime kStart{1'785'000'000'000'000};

RateSpec Spec(int64_t count, Micros period) {
  return {.algorithm = Algorithm::kSlidingLog, .count = count, .period = period};
}

TEST(SlidingLog, AnOversizedCostIsNeverAndTakesNothing) {
  TestLimit limit(Spec(10, Seconds(60)));
  EXPECT_EQ(limit.Decide(kStart, 5).remaining, 5);
  EXPECT_EQ(limit.Decide(kStart, 100).outcome, Outcome::kNever);
  EXPECT_EQ(limit.Decide(kStart, 0).remaining, 5);
}

TEST(SlidingLog, WhatWasSpentCountsForExactlyOnePeriod) {
  TestLimit limit(Spec(3, Seconds(60)));
  limit.Decide(kStart, 1);
  limit.Decide(kStart + Seconds(10), 2);
  const Verdict two = limit.Decide(kStart + Seconds(20), 2);
  EXPECT_EQ(two.retry_after, Seconds(50));
  EXPECT_EQ(two.reset_after, Seconds(50));
  EXPECT_EQ(limit.Decide(kStart + Seconds(20), 1).retry_after, Seconds(40));
  EXPECT_EQ(limit.Decide(kStart + Micros{59'999'999}, 1).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(kStart + Seconds(60), 1).outcome, Outcome::kAllowed);
  EXPECT_EQ(limit.bucket.runs().size(), 2U);  // the expired one was dropped by the write
  EXPECT_EQ(limit.bucket.IdleAt(), kStart + Seconds(120));
}

TEST(SlidingLog, OneInstantIsOneRun) {
  TestLimit limit(Spec(10, Seconds(60)));
  limit.Decide(kStart, 1);
  limit.Decide(kStart, 2);
  ASSERT_EQ(limit.bucket.runs().size(), 1U);
  EXPECT_EQ(limit.bucket.runs()[0].weight, 3);
}

TEST(SlidingLog, AClockThatStepsBackSpendsAtTheNewestInstant) {
  TestLimit limit(Spec(2, Seconds(60)));
  limit.Decide(kStart, 1);
  limit.Decide(kStart - Seconds(30), 1);
  ASSERT_EQ(limit.bucket.runs().size(), 1U);
  EXPECT_EQ(limit.bucket.runs()[0].at, kStart);
  EXPECT_EQ(limit.Decide(kStart - Seconds(30), 1).retry_after, Seconds(90));
}

TEST(SlidingLog, ARefundTakesFromTheNewest) {
  TestLimit limit(Spec(10, Seconds(60)));
  for (int i = 0; i < 3; ++i) limit.Decide(kStart + Seconds(i), 2);
  EXPECT_EQ(limit.Decide(kStart + Seconds(3), -3).taken, -3);
  ASSERT_EQ(limit.bucket.runs().size(), 2U);
  EXPECT_EQ(limit.bucket.runs()[0].weight, 2);
  EXPECT_EQ(limit.bucket.runs()[1].weight, 1);
  EXPECT_EQ(limit.bucket.state().stamp, kStart + Seconds(1));
  EXPECT_EQ(limit.Decide(kStart + Seconds(3), -kMaxCost).taken, -3);
  EXPECT_TRUE(limit.bucket.runs().empty());
  EXPECT_EQ(limit.bucket.IdleAt(), EngineTime{});
}

TEST(SlidingLog, AnUndoReachesOnlyTheRunOfItsInstant) {
  TestLimit limit(Spec(10, Seconds(60)));
  limit.Decide(kStart, 2);
  limit.Decide(kStart + Seconds(1), 2);
  const Charge middle = limit.charge;
  limit.Decide(kStart + Seconds(2), 2);
  limit.Adjust(kStart + Seconds(2), middle, -1);
  EXPECT_EQ(limit.bucket.runs()[1].weight, 1);
  limit.Adjust(kStart + Seconds(2), middle, -2);
  ASSERT_EQ(limit.bucket.runs().size(), 2U);
  EXPECT_EQ(limit.bucket.runs()[1].at, kStart + Seconds(2));
  EXPECT_EQ(limit.Adjust(kStart + Seconds(2), middle, -2).remaining, 6);  // its run is gone
}

TEST(SlidingLog, ASettleUpwardWhoseRunIsGoneCountsWithTheNextOne) {
  TestLimit limit(Spec(10, Seconds(60)));
  limit.Decide(kStart, 2);
  const Charge charge = limit.charge;
  limit.Decide(kStart + Seconds(1), 1);
  limit.Adjust(kStart + Seconds(1), charge, -2);
  limit.Adjust(kStart + Seconds(1), charge, 3);
  ASSERT_EQ(limit.bucket.runs().size(), 1U);
  EXPECT_EQ(limit.bucket.runs()[0].weight, 4);
  limit.Decide(kStart + Seconds(1), -4);
  limit.Adjust(kStart + Seconds(5), charge, 3);  // no run is left: at its own instant
  ASSERT_EQ(limit.bucket.runs().size(), 1U);
  EXPECT_EQ(limit.bucket.runs()[0], (LogRun{kStart, 3}));
  EXPECT_EQ(limit.Adjust(kStart + Seconds(60), charge, 3).remaining, 10);  // its period is over
}

// Force can ask for more runs than are kept: held against the judge at every step.
TEST(SlidingLog, BeyondTenThousandRunsForceMergesIntoTheNewest) {
  TestLimit limit(Spec(10'000, Seconds(3'600)));
  testing::Model model(
      {.kind = testing::ModelKind::kSlidingLog, .count = 10'000, .period_us = 3'600'000'000});
  EngineTime now = kStart;
  const auto step = [&](int64_t cost, bool force) {
    const Verdict verdict = limit.Decide(now, cost, {.force = force});
    const testing::ModelVerdict judge = model.Decide(now.us, cost, {.force = force});
    ASSERT_EQ(verdict.remaining, judge.remaining);
    ASSERT_EQ(verdict.retry_after.count, judge.retry_after_us);
    ASSERT_EQ(verdict.reset_after.count, judge.reset_after_us);
  };
  for (int i = 0; i < 9'990; ++i) {
    now = now + Millis(1);
    limit.Decide(now, 1, {.force = true});
    model.Decide(now.us, 1, {.force = true});
  }
  for (int i = 0; i < 20; ++i) {
    now = now + Millis(1);
    step(1, true);
  }
  ASSERT_EQ(limit.bucket.runs().size(), 10'000U);
  EXPECT_EQ(limit.bucket.runs().back(), (LogRun{now, 11}));
  EXPECT_EQ(limit.bucket.state().stamp, now);
  const Charge newest = limit.charge;
  step(5'000, false);
  step(-11, false);
  const Charge gone{.at = now, .cost = 1, .version = 1};
  limit.Adjust(now, gone, 2);  // back at its own instant: now there is room for the run
  EXPECT_EQ(limit.bucket.runs().back(), (LogRun{now, 2}));
  limit.Adjust(now, Charge{.at = now + Seconds(1), .cost = 1, .version = 1}, 2);
  EXPECT_EQ(limit.bucket.runs().size(), 10'000U);
  EXPECT_EQ(limit.bucket.runs().back(), (LogRun{now + Seconds(1), 4}));
  EXPECT_EQ(newest.at, now);
}

TEST(SlidingLog, UseIsHeldAtTheLargestExactNumber) {
  TestLimit limit(Spec(10, Seconds(60)));
  BucketEdit nearly;
  nearly.write = true;
  nearly.state = {.stamp = kStart, .value = kMaxExact - 5};
  nearly.append_count = 1;
  nearly.append[0] = {kStart, kMaxExact - 5};
  limit.bucket.Apply(limit.limit, nearly);
  const Charge charge{.at = kStart, .cost = 1, .version = 1};
  EXPECT_FALSE(limit.Decide(kStart, 3, {.force = true}).saturated);
  EXPECT_FALSE(limit.Adjust(kStart, charge, 1).saturated);
  EXPECT_TRUE(limit.Adjust(kStart, charge, 2).saturated);
  EXPECT_EQ(limit.bucket.state().value, kMaxExact);
  EXPECT_TRUE(limit.Adjust(kStart, charge, 2).saturated);
  EXPECT_TRUE(limit.Decide(kStart + Seconds(1), 2, {.force = true}).saturated);
  EXPECT_EQ(limit.bucket.runs().size(), 1U);
  EXPECT_EQ(limit.bucket.state().value, kMaxExact);
  limit.Decide(kStart, -4);
  EXPECT_TRUE(limit.Decide(kStart + Seconds(1), 5, {.force = true}).saturated);
  EXPECT_EQ(limit.bucket.runs()[1], (LogRun{kStart + Seconds(1), 4}));
}

TEST(SlidingLogChange, AShorterPeriodDropsOlderRunsAndALongerOneRevivesNone) {
  TestLimit limit(Spec(10, Seconds(60)));
  limit.Decide(kStart, 3);
  limit.Decide(kStart + Seconds(40), 2);
  limit.Change(Spec(10, Seconds(30)));
  EXPECT_EQ(limit.Decide(kStart + Seconds(41), 0).remaining, 8);
  limit.Change(Spec(10, Seconds(600)));
  EXPECT_EQ(limit.Decide(kStart + Seconds(75), 0).remaining, 10);  // 35 s old: over under the 30 s
}

TEST(SlidingLogAdHoc, ARefusalStatesTheShorterOfBothPeriods) {
  TestLimit limit(Spec(2, Seconds(60)), 0);
  limit.Decide(kStart, 2);
  limit.Change(Spec(2, Seconds(600)));
  EXPECT_EQ(limit.Decide(kStart, 1).retry_after, Seconds(60));
  limit.Change(Spec(2, Seconds(10)));
  EXPECT_EQ(limit.Decide(kStart, 1).retry_after, Seconds(10));
  EXPECT_EQ(limit.Decide(kStart, 1).reset_after, Seconds(10));
  EXPECT_EQ(limit.Decide(kStart + Seconds(10), 1).outcome, Outcome::kAllowed);
}

}  // namespace
}  // namespace penstock::core
