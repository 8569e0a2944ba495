#include "core/params.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

std::string WhyNot(const RateSpec& spec) {
  const Result<LimitParams> params = CompileRate(spec);
  return params ? "" : params.error().message;
}

TEST(CompileRate, ReducesToTheSmallestExactIntegers) {
  const LimitParams params = *CompileRate({.count = 30, .period = Seconds(60), .burst = 16});
  EXPECT_EQ(params.tick, Micros{1});
  EXPECT_EQ(params.drain, 1);
  EXPECT_EQ(params.unit_cost, 2'000'000);
  EXPECT_EQ(params.capacity, 16);
  EXPECT_EQ(params.count, 30);
  EXPECT_EQ(params.period, Seconds(60));
  EXPECT_EQ(CompileRate({.count = 7, .period = Seconds(1)})->capacity, 7);  // burst: the count
}

TEST(CompileRate, TakesTheFinestTickThatStaysExact) {
  // 999,983 is prime: a day in microseconds at that burst passes 2^52, in milliseconds it does not.
  const LimitParams coarse = *CompileRate({.count = 999'983, .period = Seconds(86'400)});
  EXPECT_EQ(coarse.tick, Millis(1));
  EXPECT_EQ(coarse.drain, 999'983);
  EXPECT_EQ(coarse.unit_cost, 86'400'000);
  const LimitParams coarsest = *CompileRate({.count = 999'999'937, .period = Seconds(86'400)});
  EXPECT_EQ(coarsest.tick, Seconds(1));
  const LimitParams fine = *CompileRate({.count = 999'983, .period = Seconds(86'400), .burst = 1});
  EXPECT_EQ(fine.tick, Micros{1});
}

// The last numbers that fit 2^52 and the first that do not.
TEST(CompileRate, TheBoundOfATokenBucketIsCapacityAndAMinuteOfDrain) {
  constexpr int64_t kMinute = 60'000'000;
  const RateSpec fits{.count = 1, .period = {1}, .burst = kMaxExact - kMinute};
  EXPECT_EQ(CompileRate(fits)->tick, Micros{1});
  EXPECT_EQ(CompileRate(fits)->capacity, kMaxExact - kMinute);
  RateSpec beyond = fits;
  ++*beyond.burst;
  EXPECT_FALSE(CompileRate(beyond));
}

TEST(CompileRate, ABucketMustRefillWithin142Years) {
  const RateSpec fits{.count = 1, .period = Millis(1), .burst = kMaxExact / 1'000 - 60'000};
  EXPECT_TRUE(CompileRate(fits));
  // In ticks of a second 2^52 seconds would be exact, but no instant could say so.
  const RateSpec beyond{.count = 1, .period = Seconds(86'400), .burst = 1'000'000};
  EXPECT_EQ(WhyNot(beyond), "burst takes more than 142 years to refill at this rate");
  const RateSpec last{.count = 1, .period = Seconds(1), .burst = 4'503'599'627};
  EXPECT_TRUE(CompileRate(last));
  const RateSpec first_beyond{.count = 1, .period = Seconds(1), .burst = 4'503'599'628};
  EXPECT_FALSE(CompileRate(first_beyond));
  RateSpec longest{.count = 1, .period = Millis(1), .burst = kMaxExact / 1'000};
  EXPECT_EQ(CompileRate(longest)->tick, Millis(1));
  ++*longest.burst;
  EXPECT_FALSE(CompileRate(longest));
}

TEST(CompileRate, RatesAboveAMillionASecondAreExactOrRefused) {
  EXPECT_EQ(CompileRate({.count = 2'000'000, .period = Seconds(1)})->drain, 2);
  EXPECT_EQ(CompileRate({.count = 2'000'000'000, .period = Seconds(1)})->drain, 2'000);
  EXPECT_EQ(CompileRate({.count = 6, .period = Seconds(60)})->unit_cost, 10'000'000);
  EXPECT_EQ(CompileRate({.count = 1, .period = Seconds(30 * 86'400)})->unit_cost, 2'592'000'000'000);
  EXPECT_EQ(WhyNot({.count = 1'000'000'000'000'000, .period = Seconds(1)}),
            "count, period and burst are too large together to be counted exactly");
}

TEST(CompileRate, SlidingWindowsTakeTheFinestTickWithTwiceCountTimesPeriodExact) {
  const auto sliding = [](int64_t count, Micros period) {
    return CompileRate({.algorithm = Algorithm::kSlidingWindow, .count = count, .period = period});
  };
  EXPECT_EQ(sliding(100, Seconds(60))->tick, Micros{1});
  EXPECT_EQ(sliding(1'000'000, Seconds(86'400))->tick, Millis(1));
  EXPECT_EQ(sliding(1'000'000'000, Seconds(86'400))->tick, Seconds(1));
  EXPECT_EQ(sliding(1'000'000'000, Millis(86'400'001)).error().message,
            "count and period are too large together to be counted exactly");
  EXPECT_EQ(sliding(kMaxExact / 2, Micros{1})->tick, Micros{1});
  EXPECT_FALSE(sliding(kMaxExact / 2 + 1, Micros{1}));
}

TEST(CompileRate, WhatIsNoRateIsRefusedWithTheReason) {
  EXPECT_EQ(WhyNot({.count = 0, .period = Seconds(1)}), "count must be 1 or more");
  EXPECT_EQ(WhyNot({.count = -1, .period = Seconds(1)}), "count must be 1 or more");
  EXPECT_EQ(WhyNot({.count = kMaxExact + 1, .period = Seconds(1)}), "count must be at most 4503599627370496");
  EXPECT_EQ(WhyNot({.count = 1, .period = Micros{0}}), "period must be 1 us or more");
  EXPECT_EQ(WhyNot({.count = 1, .period = Micros{-1}}), "period must be 1 us or more");
  EXPECT_EQ(WhyNot({.count = 1, .period = Micros{kMaxExact + 1}}), "period must be at most 142 years");
  EXPECT_EQ(WhyNot({.count = 1, .period = Seconds(1), .burst = 0}), "burst must be 1 or more");
  EXPECT_EQ(WhyNot({.algorithm = Algorithm::kPermits, .count = 1, .period = Millis(99)}),
            "lease must be 100ms to 24h");
  EXPECT_EQ(WhyNot({.algorithm = Algorithm::kPermits, .count = 1, .period = Seconds(86'401)}),
            "lease must be 100ms to 24h");
  EXPECT_EQ(WhyNot({.algorithm = Algorithm::kPermits, .count = 0, .period = Seconds(1)}),
            "count must be 1 or more");
  EXPECT_EQ(WhyNot({.algorithm = Algorithm::kFixedWindow, .count = 1, .period = Seconds(1), .burst = 2}),
            "only a token bucket has a burst");
  EXPECT_EQ(WhyNot({.window = WindowKind::kDay, .count = 1}),
            "only a fixed window has a calendar or a first request");
  EXPECT_EQ(WhyNot({.algorithm = Algorithm::kSlidingLog, .count = 10'001, .period = Seconds(1)}),
            "the count of a sliding log must be at most 10000");
}

TEST(CompileRate, TheLargestNumbersThatAreAllowed) {
  EXPECT_TRUE(CompileRate({.algorithm = Algorithm::kSlidingLog, .count = 10'000, .period = Seconds(1)}));
  EXPECT_TRUE(
      CompileRate({.algorithm = Algorithm::kFixedWindow, .count = kMaxExact, .period = Micros{kMaxExact}}));
  EXPECT_TRUE(CompileRate({.algorithm = Algorithm::kFixedWindow, .count = 1, .period = Micros{1}}));
}

TEST(CompileRate, ZeroAndUnlimitedNeedNoNumbers) {
  EXPECT_EQ(CompileRate({.kind = RateKind::kZero})->capacity, 0);
  EXPECT_EQ(CompileRate({.kind = RateKind::kUnlimited})->kind, RateKind::kUnlimited);
}

TEST(CompileRate, CalendarWindowsHaveANominalLength) {
  const auto days = [](WindowKind kind) {
    const RateSpec spec{.algorithm = Algorithm::kFixedWindow, .window = kind, .count = 1};
    const int64_t period = CompileRate(spec)->period.count;
    EXPECT_EQ(period % 86'400'000'000, 0);
    return period / 86'400'000'000;
  };
  EXPECT_EQ(days(WindowKind::kDay), 1);
  EXPECT_EQ(days(WindowKind::kWeek), 7);
  EXPECT_EQ(days(WindowKind::kMonth), 30);
  EXPECT_EQ(days(WindowKind::kYear), 365);
}

}  // namespace
}  // namespace penstock::core
