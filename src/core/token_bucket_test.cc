#include "core/token_bucket.h"

#include <gtest/gtest.h>

#include "core/testing/bucket_book.h"
#include "penstock/request.h"

namespace penstock::core {
namespace {

using testing::TestLimit;

constexpr EngineTime kStart{1'785'000'000'000'000};

TestLimit Bucket(int64_t count, Micros period, int64_t burst) {
  return TestLimit({.count = count, .period = period, .burst = burst});
}

TEST(TokenBucket, AnEmptyBucketRefusesUntilTheStatedInstantAndAdmitsAtIt) {
  TestLimit limit = Bucket(30, Seconds(60), 16);
  for (int i = 0; i < 16; ++i) {
    const Verdict verdict = limit.Decide(kStart, 1);
    ASSERT_EQ(verdict.outcome, Outcome::kAllowed);
    ASSERT_EQ(verdict.remaining, 15 - i);
    ASSERT_EQ(verdict.limit, 16);
    ASSERT_EQ(verdict.reset_after, Seconds(2 * (i + 1)));
  }
  const Verdict refused = limit.Decide(kStart, 1);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, Seconds(2));
  EXPECT_EQ(refused.reset_after, Seconds(32));
  EXPECT_EQ(limit.Decide(kStart + Micros{1'999'999}, 1).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(kStart + Seconds(2), 1).outcome, Outcome::kAllowed);
}

TEST(TokenBucket, OneCallAgainstBurst15At30AMinuteLeaves15AndResetsIn2Seconds) {
  const Verdict verdict = Bucket(30, Seconds(60), 16).Decide(kStart, 1);
  EXPECT_EQ(verdict.limit, 16);
  EXPECT_EQ(verdict.remaining, 15);
  EXPECT_EQ(CeilSeconds(verdict.reset_after), 2);
}

TEST(TokenBucket, ACallerWhoWaitsWhenRefusedGetsTheWholeRateAndNeverMore) {
  TestLimit limit = Bucket(10, Seconds(1), 100);
  EngineTime now = kStart;
  int64_t allowed = 0;
  while (allowed < 1'000) {
    if (limit.Decide(now, 1).outcome == Outcome::kAllowed) {
      ++allowed;
    } else {
      now = now + Millis(100);
    }
  }
  EXPECT_EQ(now - kStart, Seconds(90));  // 100 at once, 900 at 10 a second
}

TEST(TokenBucket, EverySecondCallPassesAtTwiceTheRate) {
  TestLimit limit = Bucket(1, Seconds(1), 1);
  for (int i = 0; i < 10; ++i) {
    const EngineTime now = kStart + Millis(600) * i;
    EXPECT_EQ(limit.Decide(now, 1).outcome, i % 2 == 0 ? Outcome::kAllowed : Outcome::kDenied) << i;
  }
}

TEST(TokenBucket, AMillionAnHourLeaves999999AfterTheFirstCall) {
  EXPECT_EQ(Bucket(1'000'000, Seconds(3'600), 1'000'000).Decide(kStart, 1).remaining, 999'999);
}

TEST(TokenBucket, AYearIdleIsAFullBucket) {
  TestLimit limit = Bucket(100, Seconds(60), 100);
  limit.Decide(kStart, 100);
  EXPECT_EQ(limit.Decide(kStart + Seconds(12 * 3'600), 0).remaining, 100);
  EXPECT_EQ(limit.Decide(kStart + Seconds(365 * 86'400), 1).remaining, 99);
  TestLimit fast = Bucket(2'000'000'000, Seconds(1), 2'000'000'000);  // drains 2,000 units a microsecond
  fast.Decide(kStart, 2'000'000'000);
  EXPECT_EQ(fast.Decide(kStart + Seconds(100LL * 365 * 86'400), 0).remaining, 2'000'000'000);
}

TEST(TokenBucket, AClockThatStepsBackAnHourMintsNothingAndTheWaitSaysSo) {
  TestLimit limit = Bucket(1, Seconds(1), 10);
  limit.Decide(kStart, 10);
  const Verdict back = limit.Decide(kStart - Seconds(3'600), 1);
  EXPECT_EQ(back.outcome, Outcome::kDenied);
  EXPECT_EQ(back.retry_after, Seconds(3'601));
  EXPECT_EQ(back.reset_after, Seconds(3'610));
  EXPECT_EQ(limit.Decide(kStart, 0).remaining, 0);
  EXPECT_EQ(limit.Decide(kStart + Seconds(1), 1).outcome, Outcome::kAllowed);
}

TEST(TokenBucket, AChargeUnderAClockThatStepsBackKeepsTheStamp) {
  TestLimit limit = Bucket(1, Seconds(1), 10);
  limit.Decide(kStart, 1);
  EXPECT_EQ(limit.Decide(kStart - Seconds(5), 1).outcome, Outcome::kAllowed);
  EXPECT_EQ(limit.bucket.state().stamp, kStart);
  EXPECT_EQ(limit.charge.at, kStart);
  EXPECT_EQ(limit.Decide(kStart, 0).remaining, 8);
}

TEST(TokenBucket, TheWholeCapacityPassesAndOneMoreNeverDoes) {
  TestLimit limit = Bucket(5, Seconds(1), 10);
  const Verdict never = limit.Decide(kStart, 11);
  EXPECT_EQ(never.outcome, Outcome::kNever);
  EXPECT_EQ(never.retry_after, Micros{});
  EXPECT_EQ(never.remaining, 10);
  EXPECT_FALSE(limit.bucket.present());
  EXPECT_EQ(limit.Decide(kStart, kMaxCost).outcome, Outcome::kNever);
  EXPECT_EQ(limit.Decide(kStart, 10).outcome, Outcome::kAllowed);
}

TEST(TokenBucket, APeekWritesNothingAndIsRefusedOnlyBeyondCapacity) {
  TestLimit limit = Bucket(1, Seconds(1), 10);
  EXPECT_EQ(limit.Decide(kStart, 0).outcome, Outcome::kAllowed);
  EXPECT_FALSE(limit.bucket.present());
  limit.Decide(kStart, 10);
  EXPECT_EQ(limit.Decide(kStart, 0).outcome, Outcome::kAllowed);  // empty, not beyond
  limit.Decide(kStart, 3, {.force = true});
  const Verdict beyond = limit.Decide(kStart, 0);
  EXPECT_EQ(beyond.outcome, Outcome::kDenied);
  EXPECT_EQ(beyond.retry_after, Seconds(3));
  EXPECT_EQ(beyond.remaining, 0);
}

TEST(TokenBucket, ARefundFloorsAtNoUse) {
  TestLimit limit = Bucket(1, Seconds(10), 10);
  const Verdict nothing = limit.Decide(kStart, -1);
  EXPECT_EQ(nothing.outcome, Outcome::kAllowed);
  EXPECT_EQ(nothing.taken, 0);
  EXPECT_FALSE(limit.bucket.present());
  limit.Decide(kStart, 10);
  EXPECT_EQ(limit.Decide(kStart, -1).remaining, 1);
  const Verdict rest = limit.Decide(kStart + Seconds(5), -kMaxCost);  // 8.5 tokens are used: 9 begun ones
  EXPECT_EQ(rest.taken, -9);
  EXPECT_EQ(rest.remaining, 10);
  EXPECT_EQ(rest.reset_after, Micros{});
}

TEST(TokenBucket, TakingWhatIsThereFromABucketInDebtTakesNothing) {
  TestLimit limit = Bucket(1, Seconds(1), 10);
  limit.Decide(kStart, 15, {.force = true});
  const Verdict verdict = limit.Decide(kStart, 5, {.partial = true});
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.taken, 0);
  EXPECT_EQ(verdict.retry_after, Seconds(6));  // one token
  EXPECT_EQ(limit.Decide(kStart, 0).reset_after, Seconds(15));
}

TEST(TokenBucket, PartialTakesTheWholeTokensThatAreThere) {
  TestLimit limit = Bucket(1, Seconds(1), 10);
  limit.Decide(kStart, 8);
  const Verdict verdict = limit.Decide(kStart + Micros{1'900'000}, 1'000, {.partial = true});
  EXPECT_EQ(verdict.outcome, Outcome::kAllowed);
  EXPECT_EQ(verdict.taken, 3);
  EXPECT_EQ(verdict.remaining, 0);
}

TEST(TokenBucket, RateZeroIsNeverEvenByForceAndUnlimitedStoresNothing) {
  TestLimit zero({.kind = RateKind::kZero});
  for (const int64_t cost : {1, 0, -1}) {
    const Verdict verdict = zero.Decide(kStart, cost, {.force = true});
    EXPECT_EQ(verdict.outcome, Outcome::kNever);
    EXPECT_EQ(verdict.limit, 0);
    EXPECT_EQ(verdict.remaining, 0);
    EXPECT_EQ(verdict.taken, 0);
  }
  TestLimit unlimited({.kind = RateKind::kUnlimited});
  const Verdict verdict = unlimited.Decide(kStart, 7);
  EXPECT_EQ(verdict.outcome, Outcome::kAllowed);
  EXPECT_EQ(verdict.limit, -1);
  EXPECT_EQ(verdict.remaining, -1);
  EXPECT_EQ(verdict.taken, 7);
  EXPECT_EQ(unlimited.Decide(kStart, -7).taken, 0);
  EXPECT_FALSE(unlimited.bucket.present());
  EXPECT_EQ(unlimited.charge.cost, 0);
}

TEST(TokenBucket, ABucketOfOneMicrosecondIsIdleOneMicrosecondLater) {
  TestLimit limit = Bucket(1'000'000, Seconds(1), 1);
  limit.Decide(kStart, 1);
  EXPECT_EQ(limit.bucket.IdleAt(), kStart + Micros{1});
  EXPECT_EQ(CeilMillis(limit.Decide(kStart, 0).reset_after), 1);
}

TEST(TokenBucket, TicksOfAMillisecondCountFromTheirEdges) {
  TestLimit limit = Bucket(999'983, Seconds(86'400), 999'983);
  ASSERT_EQ(limit.limit.params.tick, Millis(1));
  limit.Decide(kStart + Micros{300}, 999'983);
  // 86,400,000 units a token, 999,983 drain a tick: the first whole token is there with the 87th edge.
  const Verdict refused = limit.Decide(kStart + Micros{400}, 1);
  EXPECT_EQ(refused.retry_after, Micros{87'000 - 400});
  EXPECT_EQ(limit.Decide(kStart + Micros{86'999}, 1).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(kStart + Micros{87'000}, 1).outcome, Outcome::kAllowed);
}

TEST(TokenBucket, WaitersAreServedInOrderAndToldWhen) {
  TestLimit limit = Bucket(1, Seconds(1), 1);
  limit.Decide(kStart, 1);
  const GroupOptions patient{.max_wait = Millis(2'500)};
  EXPECT_EQ(limit.Decide(kStart, 1, patient).wait, Seconds(1));
  EXPECT_EQ(limit.Decide(kStart, 1, patient).wait, Seconds(2));
  const Verdict refused = limit.Decide(kStart, 1, patient);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, Millis(500));  // then its turn is 2.5 s away
  EXPECT_EQ(limit.Decide(kStart + Micros{499'999}, 1, patient).outcome, Outcome::kDenied);
  const Verdict admitted = limit.Decide(kStart + Millis(500), 1, patient);
  EXPECT_EQ(admitted.outcome, Outcome::kAllowed);
  EXPECT_EQ(admitted.wait, Millis(2'500));
  EXPECT_EQ(admitted.remaining, 0);
}

TEST(TokenBucket, DebtByForceIsHeldAtTheLargestExactNumberAndSaysSo) {
  TestLimit limit = Bucket(1, Seconds(30 * 86'400), 1);  // p = 2,592,000,000,000: 1,737 tokens in 2^52
  const Verdict all = limit.Decide(kStart, 1'737, {.force = true});
  EXPECT_FALSE(all.saturated);
  const Verdict beyond = limit.Decide(kStart, 1, {.force = true});
  EXPECT_TRUE(beyond.saturated);
  EXPECT_EQ(beyond.outcome, Outcome::kAllowed);
  EXPECT_EQ(limit.bucket.state().value, 1'737 * 2'592'000'000'000);
  EXPECT_EQ(limit.Decide(kStart, kMaxCost, {.force = true}).saturated, true);
  EXPECT_EQ(limit.bucket.state().value, 1'737 * 2'592'000'000'000);
}

TEST(TokenBucket, NoWaitIsToldLongerThan142Years) {
  TestLimit limit = Bucket(999'983, Seconds(86'400), 999'983);  // in ticks of a millisecond
  while (!limit.Decide(kStart, kMaxCost, {.force = true}).saturated) {
  }
  EXPECT_LT(limit.Decide(kStart, 0).reset_after, Micros{kMaxExact});
  TestLimit slow({.count = 1, .period = Micros{kMaxExact - 60'000'000}, .burst = 1});
  slow.Decide(kStart, 1);
  EXPECT_EQ(slow.Decide(kStart, 0).reset_after, Micros{kMaxExact - 60'000'000});
}

TEST(TokenBucket, AnUndoTakesBackOnlyWhatHasNotDrainedSince) {
  TestLimit limit = Bucket(1, Seconds(1), 20);
  limit.Decide(kStart, 5);
  const Charge first = limit.charge;
  limit.Decide(kStart + Seconds(3), 4);
  limit.Adjust(kStart + Seconds(3), first, -5);
  EXPECT_EQ(limit.bucket.state().value, 4'000'000);  // not 1

  TestLimit used = Bucket(1, Seconds(1), 20);
  used.Decide(kStart, 10);
  used.Decide(kStart, 5);
  used.Adjust(kStart + Seconds(3), used.charge, -5);
  EXPECT_EQ(used.bucket.state().value, 7'000'000);
}

TEST(TokenBucket, ASettleAboveTheReservationIsRememberedAndBelowItIsGivenBack) {
  TestLimit limit = Bucket(100, Seconds(60), 100);
  limit.Decide(kStart, 60);
  const Charge reserved = limit.charge;
  EXPECT_EQ(limit.Adjust(kStart, reserved, 50).remaining, 0);
  EXPECT_EQ(limit.charge.cost, 110);
  const Charge settled = limit.charge;
  EXPECT_EQ(limit.Decide(kStart, 0).retry_after, Seconds(6));
  EXPECT_EQ(limit.Adjust(kStart, settled, -80).remaining, 70);
  EXPECT_EQ(limit.charge.cost, 30);
  EXPECT_EQ(limit.Adjust(kStart, limit.charge, -1'000).remaining, 100);  // never more than was taken
  EXPECT_EQ(limit.charge.cost, 0);
}

TEST(TokenBucket, AnUndoThatMeetsANewerVersionIsDropped) {
  TestLimit limit = Bucket(100, Seconds(60), 100);
  limit.Decide(kStart, 60);
  const Charge charge = limit.charge;
  limit.Change({.count = 200, .period = Seconds(60)});
  limit.Decide(kStart, 0);
  EXPECT_EQ(limit.Adjust(kStart, charge, -60).remaining, 140);
  EXPECT_EQ(limit.Adjust(kStart, charge, 40).remaining, 100);  // a settle upward still counts
}

TEST(TokenBucket, OfReservationsAbove100OnlyOneFitsAndTheHugeOnesNever) {
  for (const bool larger_first : {false, true}) {
    TestLimit limit = Bucket(100, Seconds(60), 100);
    EXPECT_EQ(limit.Decide(kStart, larger_first ? 80 : 58).outcome, Outcome::kAllowed);
    EXPECT_EQ(limit.Decide(kStart, larger_first ? 58 : 80).outcome, Outcome::kDenied);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(limit.Decide(kStart, 175).outcome, Outcome::kNever);
  }
}

TEST(TokenBucketChange, TheFirstDecisionDrainsByTheOldRateUpToNowAndConvertsEvenWhenItRefuses) {
  TestLimit limit = Bucket(100, Seconds(60), 100);
  limit.Decide(kStart, 100);
  limit.Change({.count = 1, .period = Seconds(3'600), .burst = 100});
  const Verdict verdict = limit.Decide(kStart + Seconds(60), 100);
  EXPECT_EQ(verdict.outcome, Outcome::kAllowed);  // all had drained at 100 a minute

  TestLimit half = Bucket(100, Seconds(60), 100);
  half.Decide(kStart, 100);
  half.Change({.count = 1, .period = Seconds(3'600), .burst = 10});
  EXPECT_EQ(half.Decide(kStart + Seconds(30), 1).outcome, Outcome::kDenied);
  EXPECT_EQ(half.bucket.View().version, 2);
  EXPECT_EQ(half.bucket.state().value, 50 * 3'600'000'000);
  EXPECT_EQ(half.bucket.state().stamp, kStart + Seconds(30));
}

TEST(TokenBucketChange, RaisedLimitsShowTheDifferenceAndLoweredOnesHoldAtOnce) {
  TestLimit raised = Bucket(10, Seconds(3'600), 10);
  int64_t passed = 0;
  for (int i = 0; i < 50; ++i) passed += raised.Decide(kStart, 1).taken;
  EXPECT_EQ(passed, 10);
  raised.Change({.count = 20, .period = Seconds(3'600)});
  for (int i = 0; i < 50; ++i) passed += raised.Decide(kStart, 1).taken;
  EXPECT_EQ(passed, 20);

  TestLimit large = Bucket(10'000, Seconds(3'600), 10'000);
  large.Decide(kStart, 10'000);
  large.Change({.count = 15'000, .period = Seconds(3'600)});
  EXPECT_EQ(large.Decide(kStart, 0).remaining, 5'000);

  TestLimit lowered = Bucket(100, Seconds(3'600), 100);
  lowered.Decide(kStart, 60);
  lowered.Change({.count = 10, .period = Seconds(3'600)});
  const Verdict verdict = lowered.Decide(kStart, 1);
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.remaining, 0);
  EXPECT_EQ(verdict.limit, 10);
}

TEST(TokenBucketChange, ARefundOfOneAtRemainingZeroLeavesOne) {
  TestLimit limit = Bucket(10, Seconds(3'600), 10);
  limit.Decide(kStart, 10);
  EXPECT_EQ(limit.Decide(kStart, 0).remaining, 0);
  EXPECT_EQ(limit.Decide(kStart, -1).remaining, 1);
}

TestLimit AdHoc(int64_t count, Micros period, int64_t burst) {
  return TestLimit({.count = count, .period = period, .burst = burst}, 0);
}

TEST(TokenBucketAdHoc, CallersWhoAlternateTheBurstOfOneKeyAreNotStarved) {
  TestLimit limit = AdHoc(30, Seconds(60), 16);
  int64_t passed = 0;
  for (int i = 0; i < 600; ++i) {
    limit.Change({.count = 30, .period = Seconds(60), .burst = i % 2 == 0 ? 16 : 21});
    passed += limit.Decide(kStart + Seconds(i), 1).taken;
  }
  EXPECT_GE(passed, 313);
  EXPECT_LE(passed, 321);
}

TEST(TokenBucketAdHoc, UseIsCarriedToTheNextCallersParametersAndWrittenOnlyWithACharge) {
  TestLimit limit = AdHoc(200, Seconds(60), 200);
  limit.Decide(kStart, 150);
  const BucketState before = limit.bucket.state();
  limit.Change({.count = 2, .period = Seconds(60)});
  const Verdict refused = limit.Decide(kStart, 1);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.limit, 2);
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(limit.bucket.state(), before);
  // Nothing was written, so the bucket drains at 200 a minute until 1 of 150 is left.
  EXPECT_EQ(refused.retry_after, Millis(44'700));
  EXPECT_EQ(refused.reset_after, Seconds(45));
  EXPECT_EQ(limit.Decide(kStart + Micros{44'699'999}, 1).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(kStart + Millis(44'700), 1).outcome, Outcome::kAllowed);
  EXPECT_EQ(limit.bucket.state().value, 2 * 30'000'000);  // one carried, one charged
}

}  // namespace
}  // namespace penstock::core
