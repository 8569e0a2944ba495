// One limit at a time: what each algorithm answers through the engine, and what the engine must keep of it.
#include "harness.h"

namespace penstock::conformance {
namespace {

class Algorithms : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Engines, Algorithms, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Algorithms, ATokenBucketAnswersEveryField) {
  const auto limit = Registered("bucket", Bucket(30, kMinute, 16));
  for (int i = 0; i < 16; ++i) {
    const core::Verdict verdict = client_.Check(*limit);
    ASSERT_EQ(verdict.outcome, Outcome::kAllowed) << i;
    ASSERT_EQ(verdict.limit, 16);
    ASSERT_EQ(verdict.remaining, 15 - i);
    ASSERT_EQ(verdict.taken, 1);
    ASSERT_EQ(verdict.retry_after, Micros{});
    ASSERT_EQ(verdict.reset_after, Seconds(2 * (i + 1)));
    ASSERT_FALSE(verdict.saturated);
  }
  const core::Verdict refused = client_.Check(*limit);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(refused.taken, 0);
  EXPECT_EQ(refused.retry_after, Seconds(2));
  EXPECT_EQ(refused.reset_after, Seconds(32));
}

TEST_P(Algorithms, ARefusalHoldsUntilTheStatedInstantAndNotAMicrosecondLonger) {
  for (const core::RateSpec& spec :
       {Bucket(7, Seconds(3), 2), Fixed(2, Seconds(10)), Sliding(2, Seconds(10)), Log(2, Seconds(10)),
        Fixed(2, Seconds(10), core::WindowKind::kFirstRequest)}) {
    const auto limit = Registered("a" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    Advance({1'234'567});
    client_.Check(*limit);
    Advance({777});
    client_.Check(*limit);
    const core::Verdict refused = client_.Check(*limit);
    ASSERT_EQ(refused.outcome, Outcome::kDenied);
    Advance(refused.retry_after - Micros{1});
    EXPECT_EQ(client_.Check(*limit).outcome, Outcome::kDenied);
    Advance({1});
    EXPECT_EQ(client_.Check(*limit).outcome, Outcome::kAllowed);
  }
}

TEST_P(Algorithms, APeekChangesNothingAndANeverIsSaid) {
  for (const core::RateSpec& spec :
       {Bucket(5, kMinute), Fixed(5, kMinute), Sliding(5, kMinute), Log(5, kMinute)}) {
    const auto limit = Registered("p" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    client_.Check(*limit, 2);
    for (int i = 0; i < 3; ++i) {
      const core::Verdict peek = client_.Check(*limit, 0);
      EXPECT_EQ(peek.outcome, Outcome::kAllowed);
      EXPECT_EQ(peek.remaining, 3);
      EXPECT_EQ(peek.taken, 0);
    }
    const core::Verdict never = client_.Check(*limit, 6);
    EXPECT_EQ(never.outcome, Outcome::kNever);
    EXPECT_EQ(never.remaining, 3);
    EXPECT_EQ(client_.Check(*limit, 5).outcome, Outcome::kDenied);
    EXPECT_EQ(client_.Check(*limit, 3).outcome, Outcome::kAllowed);
  }
}

TEST_P(Algorithms, ARefundGivesBackWhatWasUsedAndFloors) {
  for (const core::RateSpec& spec : {Bucket(5, kHour), Fixed(5, kHour), Sliding(5, kHour), Log(5, kHour)}) {
    const auto limit = Registered("r" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    client_.Check(*limit, 5);
    EXPECT_EQ(client_.Check(*limit).outcome, Outcome::kDenied);
    const core::Verdict refund = client_.Check(*limit, -2);
    EXPECT_EQ(refund.outcome, Outcome::kAllowed);
    EXPECT_EQ(refund.remaining, 2);
    EXPECT_EQ(refund.taken, -2);
    EXPECT_EQ(client_.Check(*limit, -100).remaining, 5);
    EXPECT_EQ(client_.Check(*limit, 5).outcome, Outcome::kAllowed);
  }
}

TEST_P(Algorithms, ForceChargesBeyondCapacityAndIsRemembered) {
  for (const core::RateSpec& spec : {Bucket(5, kHour), Fixed(5, kHour), Sliding(5, kHour), Log(5, kHour)}) {
    const auto limit = Registered("f" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    const core::Verdict forced = client_.Check(*limit, 8, "k", {.force = true});
    EXPECT_EQ(forced.outcome, Outcome::kAllowed);
    EXPECT_EQ(forced.taken, 8);
    EXPECT_EQ(forced.remaining, 0);
    EXPECT_EQ(client_.Check(*limit, 0).outcome, Outcome::kDenied);  // beyond capacity
    EXPECT_EQ(client_.Check(*limit, -4).remaining, 1);
  }
}

TEST_P(Algorithms, PartialTakesWhatIsThere) {
  for (const core::RateSpec& spec : {Bucket(5, kHour), Fixed(5, kHour), Sliding(5, kHour), Log(5, kHour)}) {
    const auto limit = Registered("t" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    const core::GroupOptions partial{.partial = true};
    EXPECT_EQ(client_.Check(*limit, 2, "k", partial).taken, 2);
    const core::Verdict rest = client_.Check(*limit, 100, "k", partial);
    EXPECT_EQ(rest.outcome, Outcome::kAllowed);
    EXPECT_EQ(rest.taken, 3);
    const core::Verdict none = client_.Check(*limit, 100, "k", partial);
    EXPECT_EQ(none.outcome, Outcome::kDenied);
    EXPECT_EQ(none.taken, 0);
  }
}

TEST_P(Algorithms, MaxWaitReservesInOrder) {
  const auto limit = Registered("wait", Bucket(1, Seconds(1), 1));
  const core::GroupOptions wait{.max_wait = Seconds(2)};
  EXPECT_EQ(client_.Check(*limit, 1, "k", wait).wait, Micros{});
  EXPECT_EQ(client_.Check(*limit, 1, "k", wait).wait, Seconds(1));
  EXPECT_EQ(client_.Check(*limit, 1, "k", wait).wait, Seconds(2));
  const core::Verdict refused = client_.Check(*limit, 1, "k", wait);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, Seconds(1));  // then it would pass with its wait
  EXPECT_EQ(client_.Check(*limit).retry_after, Seconds(3));
}

TEST_P(Algorithms, RateZeroIsNeverAndUnlimitedStoresNothing) {
  core::RateSpec zero = Bucket(1, kMinute);
  zero.kind = core::RateKind::kZero;
  const auto banned = Registered("zero", zero);
  const core::Verdict never = client_.Check(*banned);
  EXPECT_EQ(never.outcome, Outcome::kNever);
  EXPECT_EQ(never.limit, 0);
  core::RateSpec free = Bucket(1, kMinute);
  free.kind = core::RateKind::kUnlimited;
  const auto unlimited = Registered("free", free);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client_.Check(*unlimited, 1'000'000).outcome, Outcome::kAllowed);
  EXPECT_EQ(client_.Check(*unlimited).remaining, -1);
  EXPECT_EQ(engine_->engine().stats().keys, 0u);
}

TEST_P(Algorithms, AMillionAnHourCountsWithoutError) {
  const auto limit = Registered("million", Bucket(1'000'000, kHour));
  EXPECT_EQ(client_.Check(*limit).remaining, 999'999);
}

TEST_P(Algorithms, ADrainOfAMicrosecondDoesNotVanishEarly) {
  const auto limit = Registered("fast", Bucket(1'000'000, Seconds(1), 3));
  client_.Check(*limit, 3);
  EXPECT_EQ(client_.Check(*limit).retry_after, Micros{1});
  Advance({2});
  EXPECT_EQ(client_.Check(*limit, 3).outcome, Outcome::kDenied);
  EXPECT_EQ(client_.Check(*limit, 2).outcome, Outcome::kAllowed);
}

TEST_P(Algorithms, AYearOfSilenceGivesAFullBucketOnly) {
  const auto limit = Registered("year", Bucket(10, Seconds(1), 5));
  client_.Check(*limit, 5);
  Advance(kDay * 365);
  EXPECT_EQ(client_.Check(*limit, 6).outcome, Outcome::kNever);
  EXPECT_EQ(client_.Check(*limit, 5).outcome, Outcome::kAllowed);
  EXPECT_EQ(client_.Check(*limit).outcome, Outcome::kDenied);
}

TEST_P(Algorithms, AClockThatStepsBackMintsNothingAndTheWaitSaysSo) {
  const auto limit = Registered("back", Bucket(1, Seconds(1), 2));
  client_.Check(*limit, 2);
  Advance(Seconds(-3'600));
  const core::Verdict refused = client_.Check(*limit);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, Seconds(3'601));
  Advance(refused.retry_after - Micros{1});
  EXPECT_EQ(client_.Check(*limit).outcome, Outcome::kDenied);
  Advance({1});
  EXPECT_EQ(client_.Check(*limit).outcome, Outcome::kAllowed);
}

TEST_P(Algorithms, AFixedWindowStartsAnewAtItsEdge) {
  const auto limit = Registered("edge", Fixed(3, Seconds(10)));
  Advance({9'999'999});
  EXPECT_EQ(client_.Check(*limit, 3).remaining, 0);
  EXPECT_EQ(client_.Check(*limit).retry_after, Micros{1});
  Advance({1});
  const core::Verdict fresh = client_.Check(*limit);
  EXPECT_EQ(fresh.outcome, Outcome::kAllowed);
  EXPECT_EQ(fresh.remaining, 2);
  EXPECT_EQ(fresh.reset_after, Seconds(10));
}

TEST_P(Algorithms, ACallEachHalfMinuteIsNeverRefusedByAHundredInTwoMinutes) {
  for (const core::WindowKind kind : {core::WindowKind::kEpoch, core::WindowKind::kFirstRequest}) {
    const auto limit =
        Registered("steady" + std::to_string(static_cast<int>(kind)), Fixed(100, Seconds(120), kind));
    for (int i = 0; i < 120; ++i) {
      const core::Verdict verdict = client_.Check(*limit);
      ASSERT_EQ(verdict.outcome, Outcome::kAllowed);
      ASSERT_GE(verdict.remaining, 96);
      Advance(Seconds(30));
    }
  }
}

TEST_P(Algorithms, ASlidingWindowAllowsTheFirstAndRemembersTheWindowBefore) {
  const auto one = Registered("one", Sliding(1, Seconds(10)));
  EXPECT_EQ(client_.Check(*one).outcome, Outcome::kAllowed);
  const auto limit = Registered("two", Sliding(100, Seconds(180)));
  engine_->SetNow(kStart);
  client_.Check(*limit, 100);
  Advance(Seconds(181));  // the window before still weighs 179/180
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 0);
  Advance(Seconds(89));
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 50);
  Advance(Seconds(90));
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 100);
}

TEST_P(Algorithms, ASlidingLogIsExactAndARefusedOversizeTakesNothing) {
  const auto limit = Registered("log", Log(10, kMinute));
  client_.Check(*limit, 5);
  EXPECT_EQ(client_.Check(*limit, 100).outcome, Outcome::kNever);
  Advance(Seconds(20));
  client_.Check(*limit, 5);
  EXPECT_EQ(client_.Check(*limit).retry_after, Seconds(40));
  Advance(Seconds(40));
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 5);
  Advance(Seconds(20));
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 10);
}

TEST_P(Algorithms, ALongLogKeepsItsOrderThroughManyChanges) {
  const auto limit = Registered("runs", Log(1'000, Seconds(10)));
  constexpr int kCalls = 5'000;
  constexpr int kInPeriod = 500;
  int kept = 0;
  for (int i = 0; i < kCalls; ++i) {
    Advance(Millis(20));
    ASSERT_EQ(client_.Check(*limit).outcome, Outcome::kAllowed);
    const bool given_back = i % 7 == 0;
    if (given_back) client_.Check(*limit, -1);
    kept += i >= kCalls - kInPeriod && !given_back;
  }
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 1'000 - kept);
  EXPECT_EQ(client_.Check(*limit, -10).remaining, 1'000 - kept + 10);
}

TEST_P(Algorithms, CalendarWindowsUseTheEdgesGivenAndSayWhenTheyAreOld) {
  const auto limit = Registered("daily", Fixed(5, {}, core::WindowKind::kDay));
  const core::WindowBoundaries edges{kStart - kDay, kStart, kStart + kDay, kStart + kDay * 2};
  Request request;
  request.asks = {{limit.get(), "k", 5, 0, &edges}};
  EXPECT_EQ(client_.Ask(request)[0].remaining, 0);
  Advance(kDay - Micros{1});
  EXPECT_EQ(client_.Ask(request)[0].retry_after, Micros{1});
  Advance({1});  // in the next window, by the same edges
  EXPECT_EQ(client_.Ask(request)[0].outcome, Outcome::kAllowed);
  Advance(kDay);
  EXPECT_EQ(client_.Ask(request).result.state, engine::GroupState::kStaleClock);
}

TEST_P(Algorithms, KeysThatLookAlikeAreSeparate) {
  const auto limit = Registered("names", Bucket(1, kHour, 1));
  std::vector<std::string> keys = {"",    "a",  "A", "a ", " a", std::string("a\0", 2), std::string("\0a", 2),
                                   "{a}", "a\n"};
  keys.emplace_back(65'536, 'x');
  keys.emplace_back(65'535, 'x');
  for (const std::string& key : keys) EXPECT_EQ(client_.Check(*limit, 1, key).outcome, Outcome::kAllowed);
  for (const std::string& key : keys) EXPECT_EQ(client_.Check(*limit, 1, key).outcome, Outcome::kDenied);
}

TEST_P(Algorithms, ResetLeavesNoUse) {
  for (const core::RateSpec& spec : {Bucket(5, kHour), Fixed(5, kHour), Sliding(5, kHour), Log(5, kHour)}) {
    const auto limit = Registered("x" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    client_.Check(*limit, 5);
    Request reset;
    reset.mode = engine::Mode::kReset;
    reset.asks = {{limit.get()}};
    const Answer answer = client_.Ask(reset);
    EXPECT_EQ(answer.result.state, engine::GroupState::kDecided);
    EXPECT_EQ(answer[0].remaining, 5);
    EXPECT_EQ(client_.Check(*limit, 5).outcome, Outcome::kAllowed);
  }
}

}  // namespace
}  // namespace penstock::conformance
