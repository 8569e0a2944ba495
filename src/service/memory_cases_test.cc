// Public fault reports of this field as cases, through the decider on the memory engine: policy text in, answer out.
#include <gtest/gtest.h>

#include "engine/memory/memory_engine.h"
#include "policy/reader.h"
#include "service/decider_impl.h"
#include "service/fake_engine.h"
#include "service/names.h"
#include "service/test_support.h"

namespace penstock::service {
namespace {

using std::chrono::microseconds;

class MemoryCases : public testing::Test {
 protected:
  // Limits of the domain `api`, a line each.
  void Load(const std::vector<std::string>& limits) {
    std::string text = "domains:\n  api:\n    limits:\n";
    for (const std::string& limit : limits) text += "      - {" + limit + "}\n";
    policy::Diagnostics diagnostics;
    policy::BuildOptions options;
    options.permits = true;
    std::shared_ptr<policy::Policy> policy = policy::ReadPolicy(text, "test.yaml", options, diagnostics);
    ASSERT_NE(policy, nullptr) << diagnostics.Text();
    store_.Publish(std::move(policy), *session_, [](const Result<void>& done) { ASSERT_TRUE(done); });
    executor_.RunAll();
  }
  Decision Ask(const Request& request) {
    answers_.Clear();
    decider_.Submit(request, answers_, 1);
    decider_.Flush();
    return answers_[1];
  }
  Decision Check(std::vector<Attribute> attributes, int64_t cost = 1) {
    Request request;
    request.domain = "api";
    request.attributes = attributes;
    request.options.cost = cost;
    return Ask(request);
  }
  Decision Look(std::vector<Attribute> attributes, std::string_view limit = {}) {
    Request request;
    request.look = true;
    request.domain = "api";
    request.attributes = attributes;
    request.only_limit = limit;
    return Ask(request);
  }

  static DeciderOptions Watched(PermitWatch& watch) {
    DeciderOptions options;
    options.watch = &watch;
    return options;
  }

  ManualClock clock_{EngineTime{1'800'000'000'000'000}};
  FakeExecutor executor_;
  FakeTimer timer_;
  engine::MemoryEngine engine_{{}, clock_};
  std::unique_ptr<engine::EngineSession> session_ = engine_.OpenLoop({executor_, timer_});
  Metrics metrics_;
  PolicyStore store_{metrics_};
  PermitWatch watch_;
  DeciderImpl decider_{engine_, *session_, executor_, clock_, store_, metrics_.AddLoop(), Watched(watch_)};
  Answers answers_;
};

// N of the gauges is that of the last who asked, granted or not: else nobody would see that more is held than there is.
TEST_F(MemoryCases, TheGaugesKnowANumberOfPermitsThatWasLowered) {
  ManualTimer timer;
  watch_.Follow(*session_, timer, clock_);
  const auto ask_for = [&](const std::string& permits) {
    Load({"name: jobs, key: [user], permits: " + permits});
    const bool allowed = Check({{"user", "42"}}).allowed;
    timer.FireAll();
    return allowed;
  };
  EXPECT_TRUE(ask_for("3"));
  EXPECT_TRUE(ask_for("3"));
  ASSERT_EQ(watch_.Gauges().size(), 1u);
  EXPECT_EQ(watch_.Gauges()[0].above, 0u);
  EXPECT_FALSE(ask_for("1"));
  EXPECT_EQ(watch_.Gauges()[0].permits, 1);
  EXPECT_EQ(watch_.Gauges()[0].in_use, 2);
  EXPECT_EQ(watch_.Gauges()[0].above, 1u);
  watch_.Stop();
}

// C25, first half.
TEST_F(MemoryCases, TwoLimitsOnTheSameKeyHaveBucketsOfTheirOwn) {
  Load({"name: wide, key: [user], rate: 200/min", "name: narrow, key: [user], rate: 2/min"});
  Check({{"user", "42"}});
  Check({{"user", "42"}});
  const Decision third = Check({{"user", "42"}});
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.limits[0].remaining, 198);
  EXPECT_EQ(third.limits[1].remaining, 0);
  EXPECT_EQ(third.limit, 2);
}

// C25, second half.
TEST_F(MemoryCases, AnAdHocKeyIsOneBucketWhateverTheCallersRate) {
  Request request;
  request.ad_hoc_key = "user:42";
  request.ad_hoc = Spec("200/min");
  EXPECT_EQ(Ask(request).remaining, 199);
  request.ad_hoc = Spec("2/min");
  EXPECT_EQ(Ask(request).remaining, 0);
  EXPECT_FALSE(Ask(request).allowed);
  request.ad_hoc = Spec("200/min");
  EXPECT_EQ(Ask(request).remaining, 197);
}

// C5d: callers that alternate between two rates for one key starve nobody.
TEST_F(MemoryCases, CallersWhoAlternateRatesForOneKeyShareItsDrain) {
  Request request;
  request.ad_hoc_key = "k";
  int passed = 0;
  for (int i = 0; i < 600; ++i) {
    request.ad_hoc = Spec("30/60s", i % 2 == 0 ? 16 : 21);
    passed += Ask(request).allowed ? 1 : 0;
    clock_.Advance(Seconds(1));
  }
  EXPECT_GE(passed, 305);
  EXPECT_LE(passed, 325);
}

// C28 without permits.
TEST_F(MemoryCases, ARefusalByAnyUnitsLimitLeavesAll) {
  Load({"name: rpm, key: [user], rate: 10/min", "name: tpm, key: [user], unit: tokens, rate: 1200/min"});
  const std::vector<Attribute> user = {{"user", "42"}};
  const UnitCost costs[] = {{"requests", 1}, {"tokens", 500}};
  Request request;
  request.domain = "api";
  request.attributes = user;
  request.options.costs = costs;
  Ask(request);
  const Decision second = Ask(request);
  EXPECT_EQ(second.limits[0].remaining, 8);
  EXPECT_EQ(second.limits[1].remaining, 200);
  const Decision third = Ask(request);
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.limits[0].remaining, 8);
  EXPECT_EQ(third.limits[1].remaining, 200);
}

// C29.
TEST_F(MemoryCases, ALoweredLimitDrainedByItsOldRateUpToTheChange) {
  Load({"name: all, key: [user], rate: 100/min"});
  EXPECT_TRUE(Check({{"user", "42"}}, 100).allowed);
  Load({"name: all, key: [user], rate: 1/h, burst: 100"});
  clock_.Advance(Seconds(60));
  EXPECT_EQ(Check({{"user", "42"}}, 0).remaining, 100);
}

// C30.
TEST_F(MemoryCases, AGroupLimitPaysOnlyForWhatTheRouteLetThrough) {
  Load({"name: group, key: [team], rate: 10/min", "name: route, key: [team, path], rate: 3/min"});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Check({{"team", "t"}, {"path", "/x"}}).allowed, i < 3);
  }
  EXPECT_EQ(Look({{"team", "t"}}).remaining, 7);
}

// C31.
TEST_F(MemoryCases, ARaisedLimitGivesTheDifferenceAtOnce) {
  Load({"name: hour, key: [user], rate: 10/h"});
  for (int i = 0; i < 50; ++i) Check({{"user", "42"}});
  Load({"name: hour, key: [user], rate: 20/h"});
  for (int i = 0; i < 11; ++i) EXPECT_EQ(Check({{"user", "42"}}).allowed, i < 10);
  Load({"name: day, key: [user], rate: 10_000/d"});
  EXPECT_TRUE(Check({{"user", "43"}}, 10'000).allowed);
  Load({"name: day, key: [user], rate: 15_000/d"});
  EXPECT_EQ(Look({{"user", "43"}}).remaining, 5'000);
}

// C32.
TEST_F(MemoryCases, ALoweredLimitHoldsAtOnceAndIsNeverNegative) {
  for (const std::string algorithm : {"token_bucket", "fixed_window", "sliding_window", "sliding_log"}) {
    const std::string name = "name: l-" + algorithm + ", key: [user], algorithm: " + algorithm;
    Load({name + ", rate: 100/h"});
    EXPECT_TRUE(Check({{"user", "42"}}, 60).allowed);
    Load({name + ", rate: 10/h"});
    const Decision refused = Check({{"user", "42"}});
    EXPECT_FALSE(refused.allowed) << algorithm;
    EXPECT_EQ(refused.remaining, 0) << algorithm;
    EXPECT_EQ(refused.limit, 10) << algorithm;
  }
}

// C33.
TEST_F(MemoryCases, ARefundGivesBackWhatWasUsedAndNoMore) {
  Load({"name: all, key: [user], rate: 2/h"});
  Check({{"user", "42"}}, 2);
  EXPECT_FALSE(Check({{"user", "42"}}).allowed);
  EXPECT_EQ(Check({{"user", "42"}}, -1).remaining, 1);
  EXPECT_EQ(Check({{"user", "42"}}, -5).remaining, 2);
  EXPECT_EQ(Check({{"user", "43"}}, -1).remaining, 2);
}

// C34.
TEST_F(MemoryCases, AnExhaustedShadowLimitDecidesNothing) {
  Load({"name: shadow, key: [user], rate: 1/h, shadow: true", "name: real, key: [user], rate: 2/h"});
  EXPECT_TRUE(Check({{"user", "42"}}).allowed);
  const Decision second = Check({{"user", "42"}});
  EXPECT_TRUE(second.allowed);
  EXPECT_EQ(second.limit, 2);
  EXPECT_EQ(second.limits[0].outcome, Outcome::kDenied);
  const Decision third = Check({{"user", "42"}});
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.limit, 2);
}

// C35.
TEST_F(MemoryCases, WithAnAttributeMissingTheOtherLimitsStillApply) {
  Load({"name: pair, key: [user, ip], rate: 1/h", "name: all, rate: 2/h"});
  EXPECT_EQ(Check({{"user", "42"}}).limits.size(), 1u);
  EXPECT_EQ(Check({{"user", "42"}, {"ip", "10.0.0.1"}}).limits.size(), 2u);
  EXPECT_FALSE(Check({{"user", "42"}}).allowed);
}

// C36.
TEST_F(MemoryCases, TheDefaultDoesNotCapAnOverride) {
  Load({"name: rps, key: [user], rate: 10/s, overrides: [{match: {user: partner}, rate: 20/s}]"});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Check({{"user", "partner"}}).allowed) << i;
  EXPECT_FALSE(Check({{"user", "partner"}}).allowed);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(Check({{"user", "other"}}).allowed, i < 10) << i;
}

// C38.
TEST_F(MemoryCases, ConcurrentReservationsOfABudgetNeverOverrunIt) {
  Load({"name: tpm, key: [user], rate: 100/min"});
  int fitted = 0;
  for (const int64_t cost : {58, 80, 175, 175, 175}) {
    const Decision decision = Check({{"user", "42"}}, cost);
    fitted += decision.allowed ? 1 : 0;
    EXPECT_EQ(decision.outcome == Outcome::kNever, cost == 175);
  }
  EXPECT_EQ(fitted, 1);
  EXPECT_EQ(Look({{"user", "42"}}).remaining, 42);
}

// C26, for the wiring of edges: the window of a month ends at local midnight of the 1st.
TEST_F(MemoryCases, AMonthlyBudgetComesBackAtLocalMidnightOfTheFirst) {
  Load(
      {"name: month, key: [user], rate: 1000, algorithm: fixed_window, calendar: month, timezone: "
       "Europe/Berlin"});
  clock_.Set(EngineTime{1'711'839'600'000'000 -
                        86'400'000'000});  // 2024-03-30 00:00 Berlin, a day before summer time
  EXPECT_TRUE(Check({{"user", "42"}}, 1'000).allowed);
  const Decision refused = Check({{"user", "42"}});
  // Two days and a half of winter and summer: 31 March has 23 hours.
  EXPECT_EQ(refused.retry_after, microseconds(Seconds(24 * 3'600 + 23 * 3'600).count));
  clock_.Advance(Seconds(47 * 3'600) - Micros{1});
  EXPECT_FALSE(Check({{"user", "42"}}).allowed);
  clock_.Advance({1});
  EXPECT_TRUE(Check({{"user", "42"}}).allowed);
  clock_.Advance(Seconds(86'400 * 400));  // far beyond the edges that the decider has kept
  EXPECT_EQ(Check({{"user", "42"}}).remaining, 999);
}

TEST_F(MemoryCases, ARequestIdIsKeptWithItsAnswerOverAReload) {
  Load({"name: all, key: [user], rate: 10/h"});
  const std::vector<Attribute> user = {{"user", "42"}};
  Request request;
  request.domain = "api";
  request.attributes = user;
  request.options.request_id = "r-1";
  EXPECT_EQ(Ask(request).remaining, 9);
  Load({"name: all, key: [user], rate: 20/h", "name: more, key: [user], rate: 5/h"});
  const Decision replayed = Ask(request);
  EXPECT_TRUE(replayed.replayed);
  ASSERT_EQ(replayed.limits.size(), 1u);
  EXPECT_EQ(replayed.remaining, 9);
  EXPECT_EQ(Look({{"user", "42"}}, "all").remaining, 19);
  EXPECT_EQ(metrics_.Totals().replayed, 1u);
}

TEST_F(MemoryCases, ResetForgetsTheNamedLimitsUseAlone) {
  Load({"name: a, key: [user], rate: 10/h", "name: b, key: [user], rate: 10/h"});
  Check({{"user", "42"}}, 4);
  const std::vector<Attribute> user = {{"user", "42"}};
  Request reset;
  reset.mode = engine::Mode::kReset;
  reset.domain = "api";
  reset.attributes = user;
  reset.only_limit = "a";
  EXPECT_EQ(Ask(reset).remaining, 10);
  const Decision left = Look({{"user", "42"}});
  EXPECT_EQ(left.limits[0].remaining, 10);
  EXPECT_EQ(left.limits[1].remaining, 6);
}

TEST_F(MemoryCases, MaskedAddressesMeetAndOthersAreTheirOwnKey) {
  Load({"name: login, key: [{ip: {mask6: 64}}], rate: 2/h"});
  EXPECT_TRUE(Check({{"ip", "2001:db8::1"}}).allowed);
  EXPECT_TRUE(Check({{"ip", "2001:db8::2"}}).allowed);
  EXPECT_FALSE(Check({{"ip", "2001:db8:0:0:ffff::3"}}).allowed);
  EXPECT_TRUE(Check({{"ip", "2001:db8:0:1::1"}}).allowed);
  // In one batch each keeps its own.
  Request request;
  request.domain = "api";
  answers_.Clear();
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string address = "10.0.0." + std::to_string(i);
    const std::vector<Attribute> attributes = {{"ip", address}};
    request.attributes = attributes;
    decider_.Submit(request, answers_, 100 + i);
  }
  decider_.Flush();
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(answers_[100 + i].remaining, 1) << i;
}

}  // namespace
}  // namespace penstock::service
