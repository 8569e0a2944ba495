// The whole way: a policy, the decider, an engine that goes away and comes back, and what callers and metrics see.
#include <gtest/gtest.h>

#include "service/decider_impl.h"
#include "service/failover/testing.h"
#include "service/test_support.h"

namespace penstock::service {
namespace {

using testing::Line;

class FailoverDecider : public ::testing::Test {
 protected:
  void Publish(std::vector<policy::LimitDefinition> limits) {
    Result<void> published = Invalid("not heard");
    store_.Publish(MakePolicy(std::move(limits)), *node_.session,
                   [&published](Result<void> done) { published = std::move(done); });
    ASSERT_TRUE(published.has_value());
    node_.executor.RunAll();
  }
  Decision Check(int64_t cost = 1) {
    static const std::vector<Attribute> user = {{"user", "42"}};
    Request request;
    request.domain = "api";
    request.attributes = user;
    request.options.cost = cost;
    decider_.Submit(request, answers_, ++token_);
    decider_.Flush();
    return answers_[token_];
  }
  void Settle() {
    for (int i = 0; i < 200; ++i) {
      clock_.Advance(Micros{1'000});
      node_.timer.RunDue(clock_.Steady() + Seconds(10));
    }
  }
  LimitCounts Counts(std::string_view name) {
    LimitCounts counts;
    metrics_.ForEachLimit([&](std::string_view, std::string_view limit, const LimitCounts& of_limit) {
      if (limit == name) counts = of_limit;
    });
    return counts;
  }

  ManualClock clock_{testing::kStart};
  engine::MemoryEngine shared_{{.max_keys = 1'000, .shards = 1}, clock_};
  testing::TestNode node_{shared_, clock_, {2, 0, true}};
  Metrics metrics_;
  PolicyStore store_{metrics_};
  DeciderImpl decider_{node_.engine, *node_.session, node_.executor, clock_, store_, metrics_.AddLoop(), {}};
  Answers answers_;
  uint64_t token_ = 0;
};

TEST_F(FailoverDecider, ADegradedAnswerSaysSoAndIsCounted) {
  Publish({MakeLimit("rpm", {"user"}, "10/h")});
  EXPECT_FALSE(Check().degraded);
  node_.line = Line::kDown;
  Decision decision = Check();
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kAllowed);
  EXPECT_TRUE(decision.degraded);
  EXPECT_TRUE(decision.limits[0].degraded);
  EXPECT_EQ(decision.reason, Reason::kEngineDown);
  EXPECT_EQ(decision.limit, 5);
  EXPECT_EQ(decision.remaining, 3);  // half a token of the one that was seen, and this one
  decision = Check(6);               // more than the share
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  EXPECT_TRUE(decision.degraded);
  EXPECT_EQ(Counts("rpm").outcomes[0], 1u);
  EXPECT_EQ(Counts("rpm").degraded[static_cast<size_t>(Outcome::kAllowed)], 1u);
  EXPECT_EQ(Counts("rpm").degraded[static_cast<size_t>(Outcome::kUnavailable)], 1u);
  EXPECT_EQ(metrics_.Totals().degraded[static_cast<size_t>(Reason::kEngineDown)], 2u);
  node_.line = Line::kUp;
  Settle();
  decision = Check(0);
  EXPECT_FALSE(decision.degraded);
  EXPECT_EQ(decision.remaining, 8);
}

TEST_F(FailoverDecider, LimitsOfOneRequestFollowEachItsOwnRule) {
  policy::LimitDefinition allow = MakeLimit("allow", {"user"}, "1/h");
  allow.on_failure = core::OnFailure::kAllow;
  policy::LimitDefinition shadow = MakeLimit("shadow", {"user"}, "1/h");
  shadow.shadow = true;
  Publish({MakeLimit("local", {"user"}, "4/h"), allow, shadow});
  node_.line = Line::kDown;
  Decision decision = Check();
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);  // of `allow`
  EXPECT_EQ(decision.limits[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(decision.limits[2].outcome, Outcome::kAllowed);  // its share is the one
  decision = Check();
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.limits[2].outcome, Outcome::kDenied);  // in the shadow
  decision = Check();
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kDenied);
  policy::LimitDefinition deny = MakeLimit("deny", {"user"}, "1/h");
  deny.on_failure = core::OnFailure::kDeny;
  Publish({MakeLimit("other", {"user"}, "4/h"), deny});
  decision = Check();
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  EXPECT_EQ(decision.limits[0].remaining, 2);  // not charged
}

TEST_F(FailoverDecider, ALimitThatChangesInTheOutageIsReportedUnderItsNewVersion) {
  Publish({MakeLimit("rpm", {"user"}, "10/h")});
  Check();
  node_.line = Line::kDown;
  EXPECT_EQ(Check(2).remaining, 2);
  clock_.Advance(Micros{1'000'000});
  Publish({MakeLimit("rpm", {"user"}, "20/h")});
  EXPECT_EQ(Check(2).remaining, 5);  // of ten: the half that was seen, and four
  node_.line = Line::kUp;
  EXPECT_EQ(Check(0).remaining, 19);
  Settle();
  EXPECT_EQ(Check(0).remaining, 15);
  EXPECT_EQ(node_.engine.failover_stats().lost_units, 0u);
}

TEST_F(FailoverDecider, AReportUnderAnOldVersionFindsTheNewOne) {
  Publish({MakeLimit("rpm", {"user"}, "10/h")});
  node_.line = Line::kDown;
  EXPECT_TRUE(Check(2).allowed);
  node_.line = Line::kUp;
  clock_.Advance(Micros{1'000'000});
  Publish({MakeLimit("rpm", {"user"}, "20/h")});
  EXPECT_EQ(Check().remaining, 19);  // the bucket is the new version's before the report comes
  Settle();
  EXPECT_EQ(Check(0).remaining, 17);
  EXPECT_EQ(node_.engine.failover_stats().local_buckets, 0u);
}

TEST_F(FailoverDecider, ALimitThatIsGoneFromThePolicyIsReportedAllTheSame) {
  Publish({MakeLimit("rpm", {"user"}, "10/h"), MakeLimit("all", {}, "10/h")});
  Check();
  node_.line = Line::kDown;
  Check(2);
  node_.line = Line::kUp;
  clock_.Advance(Micros{1'000'000});
  Publish({MakeLimit("rpm", {"user"}, "20/h")});  // `all` is gone
  Check();
  Settle();
  EXPECT_EQ(Check(0).remaining, 16);
  EXPECT_EQ(node_.engine.failover_stats().local_buckets, 0u);
  EXPECT_EQ(node_.engine.failover_stats().reported_units, 4u);  // the engine still knows what is gone
}

TEST_F(FailoverDecider, ACalendarsWindowIsTheEnginesToo) {
  policy::LimitDefinition daily = MakeLimit("daily", {"user"}, "10");
  daily.algorithm = core::Algorithm::kFixedWindow;
  daily.window = core::WindowKind::kDay;
  daily.timezone = "Europe/Berlin";
  Publish({daily});
  Check(4);
  node_.line = Line::kDown;
  EXPECT_EQ(Check(2).remaining, 1);  // of five, two were seen
  node_.line = Line::kUp;
  Settle();
  EXPECT_EQ(Check(0).remaining, 4);
  node_.line = Line::kDown;
  Check(1);
  clock_.Advance(Seconds(86'400));
  EXPECT_EQ(Check(1).remaining, 4);  // another day
  node_.line = Line::kUp;
  Settle();
  EXPECT_EQ(Check(0).remaining, 9);
  EXPECT_EQ(node_.engine.failover_stats().local_buckets, 0u);
}

}  // namespace
}  // namespace penstock::service
