#include "core/fixed_window.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/testing/bucket_book.h"
#include "penstock/request.h"

namespace penstock::core {
namespace {

using testing::TestLimit;

constexpr EngineTime kStart{1'785'000'000'000'000};  // a whole minute
static_assert(kStart.us % 60'000'000 == 0);

TestLimit Window(int64_t count, Micros period, WindowKind kind = WindowKind::kEpoch) {
  return TestLimit({.algorithm = Algorithm::kFixedWindow, .window = kind, .count = count, .period = period});
}

TEST(FixedWindow, StartsAgainAtItsEdgeAndOldUseNeverSurvives) {
  TestLimit limit = Window(5, Seconds(60));
  EXPECT_EQ(limit.Decide(kStart + Seconds(59), 5).remaining, 0);
  const Verdict refused = limit.Decide(kStart + Micros{59'999'999}, 1);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, Micros{1});
  EXPECT_EQ(refused.reset_after, Micros{1});
  EXPECT_EQ(limit.bucket.IdleAt(), kStart + Seconds(60));
  const Verdict fresh = limit.Decide(kStart + Seconds(60), 1);
  EXPECT_EQ(fresh.outcome, Outcome::kAllowed);
  EXPECT_EQ(fresh.remaining, 4);
  EXPECT_EQ(fresh.reset_after, Seconds(60));
}

TEST(FixedWindow, ACallEachHalfMinuteUnder100PerTwoMinutesIsNeverRefused) {
  for (const WindowKind kind : {WindowKind::kEpoch, WindowKind::kFirstRequest}) {
    TestLimit limit = Window(100, Seconds(120), kind);
    for (int i = 0; i < 120; ++i) {
      const Verdict verdict = limit.Decide(kStart + Seconds(30) * i, 1);
      ASSERT_EQ(verdict.outcome, Outcome::kAllowed);
      ASSERT_GE(verdict.remaining, 96);
    }
  }
}

TEST(FixedWindow, FromTheFirstRequestBeginsWithIt) {
  TestLimit limit = Window(2, Seconds(60), WindowKind::kFirstRequest);
  EXPECT_EQ(limit.Decide(kStart + Seconds(50), 1).reset_after, Seconds(60));
  EXPECT_EQ(limit.Decide(kStart + Seconds(70), 1).reset_after, Seconds(40));
  EXPECT_EQ(limit.Decide(kStart + Seconds(80), 1).retry_after, Seconds(30));
  EXPECT_EQ(limit.Decide(kStart + Seconds(110), 1).reset_after, Seconds(60));
}

TEST(FixedWindow, AWindowWithoutUseIsForgotten) {
  TestLimit limit = Window(2, Seconds(60), WindowKind::kFirstRequest);
  limit.Decide(kStart, 1);
  EXPECT_EQ(limit.Decide(kStart + Seconds(10), -1).reset_after, Micros{});
  EXPECT_EQ(limit.bucket.IdleAt(), EngineTime{});
  EXPECT_EQ(limit.Decide(kStart + Seconds(20), 1).reset_after, Seconds(60));
}

TEST(FixedWindow, AnOversizedCostTakesNothing) {
  TestLimit limit = Window(10, Seconds(60));
  EXPECT_EQ(limit.Decide(kStart, 11).outcome, Outcome::kNever);
  EXPECT_FALSE(limit.bucket.present());
  limit.Decide(kStart, 4);
  EXPECT_EQ(limit.Decide(kStart, 7).outcome, Outcome::kDenied);
  EXPECT_EQ(limit.Decide(kStart, 0).remaining, 6);
}

TEST(FixedWindow, MaxWaitDoesNotReserveAhead) {
  TestLimit limit = Window(1, Seconds(60));
  limit.Decide(kStart, 1);
  const Verdict verdict = limit.Decide(kStart + Seconds(59), 1, {.max_wait = Seconds(60)});
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.wait, Micros{});
  EXPECT_EQ(verdict.retry_after, Seconds(1));
}

TEST(FixedWindow, AClockThatStepsBackStaysInTheLaterWindow) {
  TestLimit limit = Window(3, Seconds(60));
  limit.Decide(kStart, 2);
  const Verdict back = limit.Decide(kStart - Seconds(30), 2);
  EXPECT_EQ(back.outcome, Outcome::kDenied);
  EXPECT_EQ(back.retry_after, Seconds(90));
  EXPECT_EQ(limit.Decide(kStart - Seconds(30), 1).outcome, Outcome::kAllowed);
  EXPECT_EQ(limit.Decide(kStart, 0).remaining, 0);
}

TEST(FixedWindow, UseByForceIsHeldAtTheLargestExactNumber) {
  TestLimit limit = Window(kMaxExact, Seconds(60));
  BucketEdit nearly;
  nearly.write = true;
  nearly.state = {.stamp = kStart + Seconds(60), .value = kMaxExact - 5};
  limit.bucket.Apply(limit.limit, nearly);
  EXPECT_FALSE(limit.Decide(kStart, 5, {.force = true}).saturated);
  EXPECT_TRUE(limit.Decide(kStart, 1, {.force = true}).saturated);
  EXPECT_EQ(limit.bucket.state().value, kMaxExact);
}

TEST(FixedWindow, AnUndoAfterTheEdgeGivesTheNewWindowNothing) {
  TestLimit limit = Window(10, Seconds(60));
  limit.Decide(kStart, 6);
  const Charge charge = limit.charge;
  EXPECT_EQ(charge.window, kStart + Seconds(60));
  EXPECT_EQ(limit.Adjust(kStart + Seconds(59), charge, -2).remaining, 6);
  limit.Decide(kStart + Seconds(60), 3);
  EXPECT_EQ(limit.Adjust(kStart + Seconds(60), charge, -4).remaining, 7);
  EXPECT_EQ(limit.Adjust(kStart + Seconds(60), charge, 4).remaining, 7);  // nor is it charged
}

TEST(FixedWindow, ASettleUpwardFindsItsWindowThoughItsUseWasRefunded) {
  TestLimit limit = Window(10, Seconds(60), WindowKind::kFirstRequest);
  limit.Decide(kStart, 6);
  const Charge charge = limit.charge;
  limit.Decide(kStart, -6);
  const Verdict settled = limit.Adjust(kStart + Seconds(10), charge, 2);
  EXPECT_EQ(settled.remaining, 8);
  EXPECT_EQ(settled.reset_after, Seconds(50));
}

TEST(FixedWindowChange, UseMovesWithTheWindowThatContainsNow) {
  TestLimit limit = Window(100, Seconds(3'600));
  const EngineTime hour{kStart.us / 3'600'000'000 * 3'600'000'000};
  limit.Decide(hour + Seconds(90), 60);
  limit.Change({.algorithm = Algorithm::kFixedWindow, .count = 100, .period = Seconds(60)});
  const Verdict moved = limit.Decide(hour + Seconds(100), 0);
  EXPECT_EQ(moved.remaining, 40);
  EXPECT_EQ(moved.reset_after, Seconds(20));  // the minute that contains now
  EXPECT_EQ(limit.bucket.View().version, 2);

  TestLimit over = Window(100, Seconds(60));
  over.Decide(hour, 60);
  over.Change({.algorithm = Algorithm::kFixedWindow, .count = 50, .period = Seconds(3'600)});
  EXPECT_EQ(over.Decide(hour + Seconds(60), 0).remaining, 50);  // its minute was over
}

TEST(FixedWindowChange, AnotherCountKeepsTheWindow) {
  TestLimit limit = Window(100, Seconds(60), WindowKind::kFirstRequest);
  limit.Decide(kStart, 60);
  limit.Change({.algorithm = Algorithm::kFixedWindow,
                .window = WindowKind::kFirstRequest,
                .count = 10,
                .period = Seconds(60)});
  const Verdict verdict = limit.Decide(kStart + Seconds(20), 1);
  EXPECT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(verdict.remaining, 0);
  EXPECT_EQ(verdict.retry_after, Seconds(40));
}

// A month in Berlin: local midnight of the 1st, by hand: UTC+1 in winter, UTC+2 from the last Sunday of March on.
EngineTime BerlinMonth(int year, unsigned month) {
  namespace chrono = std::chrono;
  const chrono::sys_days day{chrono::year{year} / chrono::month{month} / 1};
  const bool summer = month >= 4 && month <= 10;
  const auto midnight = (day - chrono::hours(summer ? 2 : 1)).time_since_epoch();
  return {chrono::duration_cast<chrono::microseconds>(midnight).count()};
}

WindowBoundaries BerlinMonths(int year, unsigned month) {  // month: 2 to 10
  return {BerlinMonth(year, month - 1), BerlinMonth(year, month), BerlinMonth(year, month + 1),
          BerlinMonth(year, month + 2)};
}

TEST(CalendarWindow, ResetsAtLocalMidnightOfTheFirstOverLeapDayAndSummerTime) {
  TestLimit limit({.algorithm = Algorithm::kFixedWindow, .window = WindowKind::kMonth, .count = 1'000});
  const WindowBoundaries february = BerlinMonths(2028, 2), march = BerlinMonths(2028, 3);
  limit.boundaries = &february;
  const EngineTime last = BerlinMonth(2028, 3) - Micros{1};  // 29 February, a microsecond before midnight
  EXPECT_EQ(limit.Decide(last, 1'000).remaining, 0);
  EXPECT_EQ(limit.Decide(last, 1).retry_after, Micros{1});
  limit.boundaries = &march;
  const Verdict fresh = limit.Decide(BerlinMonth(2028, 3), 1);
  EXPECT_EQ(fresh.remaining, 999);
  EXPECT_EQ(fresh.reset_after, Seconds(31 * 86'400 - 3'600));  // March 2028 is an hour short
}

TEST(CalendarWindow, ANodeWhoseClockIsAWindowOffGivesTheSameEdges) {
  const WindowBoundaries early = BerlinMonths(2028, 4), right = BerlinMonths(2028, 5),
                         late = BerlinMonths(2028, 6);
  const EngineTime now = BerlinMonth(2028, 5) + Seconds(5);
  for (const WindowBoundaries* boundaries : {&early, &right, &late}) {
    TestLimit limit({.algorithm = Algorithm::kFixedWindow, .window = WindowKind::kMonth, .count = 10});
    limit.boundaries = boundaries;
    EXPECT_EQ(limit.Decide(now, 1).reset_after, BerlinMonth(2028, 6) - now);
  }
}

TEST(CalendarWindow, AnEngineClockOutsideTheBoundariesIsAnsweredStale) {
  TestLimit limit({.algorithm = Algorithm::kFixedWindow, .window = WindowKind::kMonth, .count = 10});
  const WindowBoundaries may = BerlinMonths(2028, 5);
  Operation operation = limit.Ask(1);
  const auto status = [&](EngineTime now) { return DecideGroup({&operation, 1}, {}, now); };
  EXPECT_EQ(status(may.current), GroupStatus::kStaleBoundaries);  // none given
  operation.boundaries = &may;
  EXPECT_EQ(status(may.previous - Micros{1}), GroupStatus::kStaleBoundaries);
  EXPECT_EQ(status(may.previous), GroupStatus::kDecided);
  EXPECT_EQ(status(may.end_of_next - Micros{1}), GroupStatus::kDecided);
  EXPECT_EQ(status(may.end_of_next), GroupStatus::kStaleBoundaries);
}

}  // namespace
}  // namespace penstock::core
