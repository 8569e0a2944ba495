// One node's answers while the engine is away, and what the engine is told when it is back.
#include <gtest/gtest.h>

#include "service/failover/testing.h"

namespace penstock::service {
namespace {

using core::Algorithm;
using engine::GroupState;
using engine::testing::Rate;
using testing::FleetTest;
using testing::Line;

class Failover : public FleetTest {};

TEST_F(Failover, SharesOfABurstAreNeverMoreThanIt) {  // C5c
  Open(4);
  const auto limit = Limit(Bucket(3, Seconds(3'600), 3));
  Cut(Line::kDown);
  std::vector<int64_t> admitted;
  for (size_t i = 0; i < 4; ++i) admitted.push_back(AdmitAll(i, *limit));
  EXPECT_EQ(admitted, (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(Check(3, *limit).outcome, Outcome::kUnavailable);  // it has no share: as `deny`
  EXPECT_EQ(result_.state, GroupState::kUnavailable);
  EXPECT_EQ(result_.reason, Reason::kEngineDown);
  EXPECT_EQ(Used(*limit), 0);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Used(*limit), 3);
}

TEST_F(Failover, WhoSawABucketUsedUpAdmitsNothingWhoNeverSawItItsShare) {  // C5c
  Open(4);
  const auto limit = Limit(Bucket(100, Seconds(86'400), 100));
  EXPECT_EQ(Check(0, *limit, 100).outcome, Outcome::kAllowed);
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit).outcome, Outcome::kDenied);
  EXPECT_EQ(result_.state, GroupState::kDecided);
  EXPECT_TRUE(result_.degraded);
  EXPECT_EQ(result_.reason, Reason::kEngineDown);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(AdmitAll(i, *limit), 25);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Peek(*limit).remaining, 0);
  // 75 on top of the 100: the debt takes that much longer.
  EXPECT_NEAR(static_cast<double>(Peek(*limit).reset_after.count), 175.0 * 864'000'000, 864'000'000.0);
  for (const auto& node : nodes_) {
    EXPECT_EQ(node->engine.failover_stats().local_buckets, 0u);
    EXPECT_EQ(node->timer.size(), 0u);
  }
}

TEST_F(Failover, WhatWasAdmittedOnTopOfSeedsIsChargedOnReturn) {  // C5f
  Open(4);
  const auto limit = Limit(Bucket(1, Seconds(1), 100));
  EXPECT_EQ(Check(0, *limit, 100).outcome, Outcome::kAllowed);
  for (size_t i = 1; i < 4; ++i) Check(i, *limit, 0);  // all see it
  Cut(Line::kDown);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(Check(i, *limit, 0).remaining, 0);
  Pass(Seconds(12));
  for (size_t i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(Check(i, *limit).outcome, Outcome::kAllowed);
    EXPECT_EQ(Check(i, *limit).outcome, Outcome::kDenied);
  }
  Pass(Seconds(8));
  EXPECT_EQ(Used(*limit), 80);
  Cut(Line::kUp);
  for (const auto& node : nodes_) node->timer.RunDue(clock_.Steady() + Seconds(10));
  EXPECT_EQ(Used(*limit), 92);  // 12 more
  Settle();
  EXPECT_EQ(Used(*limit), 92);
  EXPECT_EQ(nodes_[0]->engine.failover_stats().reported_units, 3u);
}

TEST_F(Failover, AnOldWindowsUseIsNotChargedToALaterOne) {  // C57
  Open(2);
  const auto limit = Limit(Rate(Algorithm::kFixedWindow, 10, Seconds(60)));
  Cut(Line::kDown);
  EXPECT_EQ(AdmitAll(0, *limit), 5);
  Pass(Seconds(61));
  EXPECT_EQ(AdmitAll(1, *limit), 5);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Used(*limit), 5);  // the second node's
  EXPECT_EQ(nodes_[0]->engine.failover_stats().reported_units, 0u);
  EXPECT_EQ(nodes_[0]->engine.failover_stats().local_buckets, 0u);
}

TEST_F(Failover, WindowsAndLogsAreReportedUnderTheirOwnTime) {
  Open(2);
  const auto sliding = Limit(Rate(Algorithm::kSlidingWindow, 20, Seconds(60)), "s");
  const auto log = Limit(Rate(Algorithm::kSlidingLog, 20, Seconds(60)), "g");
  Check(0, *sliding, 4);
  Check(0, *log, 4);
  Pass(Seconds(50));
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *sliding, 3).outcome,
            Outcome::kAllowed);  // the share is 10, of which 2 are its part of what it saw
  EXPECT_EQ(Check(0, *sliding, 5).remaining, 0);
  EXPECT_EQ(Check(0, *log, 3).outcome, Outcome::kAllowed);
  EXPECT_EQ(Check(0, *log, 5).remaining, 0);
  Pass(Seconds(20));  // now the next window
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Used(*sliding), 10);  // 12 in the window before, of which 50 s of 60 count: 10
  EXPECT_EQ(Used(*log), 8);       // the first 4 are 70 s old
  Pass(Seconds(39));
  EXPECT_EQ(Used(*log), 8);
  Pass(Seconds(2));
  EXPECT_EQ(Used(*log), 0);
}

TEST_F(Failover, AFirstRequestsWindowIsReportedIfTheEngineCountsTheSame) {
  Open(2);
  core::RateSpec spec = Rate(Algorithm::kFixedWindow, 10, Seconds(60));
  spec.window = core::WindowKind::kFirstRequest;
  const auto limit = Limit(spec);
  Cut(Line::kDown);
  EXPECT_EQ(AdmitAll(0, *limit), 5);
  Pass(Seconds(10));
  EXPECT_EQ(AdmitAll(1, *limit), 5);
  nodes_[0]->line = Line::kUp;
  Settle();
  EXPECT_EQ(Used(*limit), 5);
  nodes_[1]->line = Line::kUp;
  Settle();
  EXPECT_EQ(Used(*limit), 5);  // its window began later
  EXPECT_EQ(nodes_[1]->engine.failover_stats().lost_units, 5u);
  EXPECT_EQ(nodes_[1]->engine.failover_stats().local_buckets, 0u);
}

TEST_F(Failover, AChargeWhoseReplyWasLostMayCountTwiceNeverNotAtAll) {
  Open(1);
  const auto limit = Limit(Bucket(10, Seconds(86'400), 10));
  Cut(Line::kRepliesLost);
  EXPECT_EQ(Check(0, *limit, 2).outcome, Outcome::kAllowed);
  EXPECT_TRUE(result_.may_have_run);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Used(*limit), 4);
}

TEST_F(Failover, ReportsAreTriedUntilTheyAreHeard) {
  Open(1);
  const auto limit = Limit(Bucket(10, Seconds(86'400), 10));
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit, 2).outcome, Outcome::kAllowed);
  Pass(Seconds(20));
  const FailoverStats stats = nodes_[0]->engine.failover_stats();
  EXPECT_GE(stats.failed_reports, 3u);
  EXPECT_LE(stats.failed_reports, 200u);  // one a turn
  Cut(Line::kUp);
  Pass(Seconds(6));
  EXPECT_EQ(Used(*limit), 2);
  EXPECT_EQ(nodes_[0]->engine.failover_stats().local_buckets, 0u);
}

TEST_F(Failover, AnOutageThatComesBackFindsTheBucketAsItWas) {
  Open(2);
  const auto limit = Limit(Bucket(20, Seconds(86'400), 20));
  for (int i = 0; i < 5; ++i) {  // comes and goes faster than reports are made
    Cut(Line::kDown);
    Check(0, *limit, 3);
    Cut(Line::kUp);
    Check(0, *limit, 0);
  }
  Settle();
  EXPECT_EQ(Used(*limit), 9);  // of its share of 10
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit, 0).remaining, 5);  // ceil(9 / 2) of 10 are used
}

TEST_F(Failover, BeforeTheFleetIsKnownItDenies) {
  Open(1);
  const auto limit = Limit(Bucket(10, Seconds(60), 10));
  nodes_[0]->view.value = {};
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit).outcome, Outcome::kUnavailable);
  EXPECT_EQ(result_.state, GroupState::kUnavailable);
  EXPECT_EQ(nodes_[0]->engine.failover_stats().without_share, 1u);
  nodes_[0]->view.value = {1, 0, true};
  EXPECT_EQ(Check(0, *limit).outcome, Outcome::kAllowed);
}

TEST_F(Failover, AConfiguredSizeNeedsNoHeartbeats) {
  Open(1, {.fleet_size = 4});
  const auto limit = Limit(Bucket(10, Seconds(86'400), 10));
  nodes_[0]->view.value = {};
  Cut(Line::kDown);
  EXPECT_EQ(AdmitAll(0, *limit), 2);  // nobody gets the remainder
  nodes_[0]->view.value = {2, 1, true};
  const auto other = Limit(Bucket(10, Seconds(86'400), 10), "other");
  EXPECT_EQ(AdmitAll(0, *other), 3);
}

TEST_F(Failover, MoreThanTheShareIsUnavailableMoreThanTheLimitNever) {
  Open(4);
  const auto limit = Limit(Bucket(100, Seconds(60), 100));
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit, 26).outcome, Outcome::kUnavailable);
  EXPECT_EQ(result_.state, GroupState::kDecided);
  EXPECT_EQ(Check(0, *limit, 101).outcome, Outcome::kNever);
  EXPECT_EQ(Check(0, *limit, 25).outcome, Outcome::kAllowed);
}

TEST_F(Failover, LocalLimitsAreDecidedAllOrNothingBesideOthers) {
  Open(1);
  const auto a = Limit(Bucket(10, Seconds(86'400), 10), "a");
  const auto b = Limit(Bucket(5, Seconds(86'400), 5), "b");
  const auto allow = Limit(Bucket(1, Seconds(86'400), 1), "allow");
  allow->on_failure = core::OnFailure::kAllow;
  const auto deny = Limit(Bucket(1, Seconds(86'400), 1), "deny");
  deny->on_failure = core::OnFailure::kDeny;
  engine::EngineSession& session = *nodes_[0]->session;
  Cut(Line::kDown);
  std::vector<core::Verdict> verdicts = Decide(session, {{a.get(), 3}, {allow.get()}, {b.get(), 3}});
  EXPECT_EQ(result_.state, GroupState::kDecided);
  EXPECT_EQ(verdicts[0].remaining, 7);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kUnavailable);
  EXPECT_EQ(verdicts[2].remaining, 2);
  verdicts = Decide(session, {{a.get(), 3}, {allow.get()}, {b.get(), 3}});
  EXPECT_EQ(verdicts[0].remaining, 7);  // spends nothing, since b refuses
  EXPECT_EQ(verdicts[2].outcome, Outcome::kDenied);
  verdicts = Decide(session, {{a.get(), 3}, {deny.get()}});
  EXPECT_EQ(verdicts[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(verdicts[0].remaining, 7);  // judged, not charged: the request is not allowed
  EXPECT_EQ(verdicts[1].outcome, Outcome::kUnavailable);
  Decide(session, {{allow.get()}, {deny.get()}});
  EXPECT_EQ(result_.state, GroupState::kUnavailable);  // nothing is local
  EXPECT_FALSE(result_.degraded);
}

TEST_F(Failover, LimitsWithoutANumberNeedNoShare) {
  Open(4);
  core::RateSpec zero;
  zero.kind = core::RateKind::kZero;
  core::RateSpec unlimited;
  unlimited.kind = core::RateKind::kUnlimited;
  const auto banned = Limit(zero, "zero");
  const auto open = Limit(unlimited, "unlimited");
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *banned).outcome, Outcome::kNever);
  EXPECT_EQ(Check(0, *open).outcome, Outcome::kAllowed);
  EXPECT_EQ(nodes_[0]->engine.failover_stats().local_buckets, 0u);
}

TEST_F(Failover, OptionsMeanTheSameUnderAShare) {
  Open(2);
  const auto limit = Limit(Bucket(20, Seconds(20), 20));
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit, 0).remaining, 10);  // a peek
  core::Verdict verdict = Check(0, *limit, 14, [](engine::Group& group) { group.options.partial = true; });
  EXPECT_EQ(verdict.taken, 10);
  EXPECT_EQ(Check(0, *limit, -4).remaining, 4);  // a refund
  verdict = Check(0, *limit, 6, [](engine::Group& group) { group.options.max_wait = Seconds(4); });
  EXPECT_EQ(verdict.outcome, Outcome::kAllowed);
  EXPECT_EQ(verdict.wait, Seconds(4));  // half the rate
  verdict = Check(0, *limit, 5, [](engine::Group& group) { group.options.force = true; });
  EXPECT_EQ(verdict.outcome, Outcome::kAllowed);
  Cut(Line::kUp);
  Settle();
  EXPECT_GE(Used(*limit), 16);  // 17, and what drained away meanwhile
}

TEST_F(Failover, ARefundOfWhatTheEngineKnowsIsNotReported) {
  Open(1);
  const auto limit = Limit(Bucket(10, Seconds(86'400), 10));
  Check(0, *limit, 5);
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit, -3).remaining, 8);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Used(*limit), 5);
}

TEST_F(Failover, ARepeatInTheOutageGetsItsFirstAnswer) {
  Open(1);
  const auto limit = Limit(Bucket(10, Seconds(86'400), 10));
  const auto with_id = [](engine::Group& group) {
    group.request_id = "r-1";
    group.fingerprint = 7;
  };
  Cut(Line::kDown);
  EXPECT_EQ(Check(0, *limit, 4, with_id).remaining, 6);
  EXPECT_FALSE(result_.replayed);
  EXPECT_EQ(Check(0, *limit, 4, with_id).remaining, 6);
  EXPECT_TRUE(result_.replayed);
  EXPECT_TRUE(result_.degraded);
  Check(0, *limit, 5, [](engine::Group& group) {
    group.request_id = "r-1";
    group.fingerprint = 8;
  });
  EXPECT_EQ(result_.state, GroupState::kConflict);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Used(*limit), 4);
}

TEST_F(Failover, ASettleFindsAnIdThatIsKeptHereAndNeverDeniesThatThereIsOne) {
  Open(1);
  std::vector<std::unique_ptr<core::Limit>> limits;  // a policy's live until all is told
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    limits.push_back(
        Limit(Rate(algorithm, 20, Seconds(86'400)), "l" + std::to_string(static_cast<int>(algorithm))));
    const core::Limit* const limit = limits.back().get();
    const auto settle = [](engine::Group& group) {
      group.mode = engine::Mode::kSettle;
      group.request_id = "r-1";
    };
    Cut(Line::kDown);
    Check(0, *limit, 3, settle);
    EXPECT_EQ(result_.state, GroupState::kUnavailable);  // the engine may keep it
    Check(0, *limit, 4, [](engine::Group& group) { group.request_id = "r-1"; });
    EXPECT_EQ(Check(0, *limit, 6, settle).remaining, 14);
    EXPECT_EQ(result_.state, GroupState::kDecided);
    Check(0, *limit, 5, settle);
    Cut(Line::kUp);
    Settle();
    EXPECT_EQ(Used(*limit), 5);
    Check(0, *limit, 8, settle);  // after the return
    EXPECT_EQ(result_.state, GroupState::kDecided);
    Settle();
    EXPECT_EQ(Used(*limit), 8);
    Check(0, *limit, 8, [](engine::Group& group) {
      group.mode = engine::Mode::kSettle;
      group.request_id = "r-2";
    });
    EXPECT_EQ(result_.state, GroupState::kUnknownId);
    clock_.Advance(Seconds(100));  // the id is forgotten
  }
}

TEST_F(Failover, AResetOrAnAdjustmentIsTheEnginesAlone) {
  Open(1);
  const auto limit = Limit(Bucket(10, Seconds(60), 10));
  Cut(Line::kDown);
  Check(0, *limit, 1, [](engine::Group& group) { group.mode = engine::Mode::kReset; });
  EXPECT_EQ(result_.state, GroupState::kUnavailable);
}

TEST_F(Failover, TheBookOfLocalBucketsIsBounded) {
  Open(1, {.max_local_buckets = 2});
  const auto limit = Limit(Bucket(10, Seconds(10), 10));
  engine::EngineSession& session = *nodes_[0]->session;
  Cut(Line::kDown);
  EXPECT_EQ(Decide(session, {{limit.get(), 1, "a"}})[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(Decide(session, {{limit.get(), 1, "b"}})[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(Decide(session, {{limit.get(), 1, "c"}})[0].outcome, Outcome::kUnavailable);
  EXPECT_EQ(result_.reason, Reason::kFull);
  EXPECT_EQ(Decide(session, {{limit.get(), 1, "a"}})[0].outcome, Outcome::kAllowed);
  Pass(Seconds(3));  // those that are idle again make room
  EXPECT_EQ(Decide(session, {{limit.get(), 1, "c"}})[0].outcome, Outcome::kAllowed);
}

TEST_F(Failover, AdHocLimitsAreReportedThoughTheirOwnerLetThemGo) {
  Open(1);
  Cut(Line::kDown);
  core::Limit again;
  {
    core::Limit limit;
    limit.domain = again.domain = "ad-hoc";
    limit.identity = again.identity = "ad-hoc 0";
    limit.params = again.params = *core::CompileRate(Bucket(10, Seconds(86'400), 10));
    nodes_[0]->session->BindAdHoc(limit);
    EXPECT_EQ(Check(0, limit, 4).remaining, 6);
  }
  Cut(Line::kUp);
  Settle();
  direct_->BindAdHoc(again);
  EXPECT_EQ(Used(again), 4);
}

TEST_F(Failover, TheLocalEngineTellsTheEnginesTime) {
  ManualClock fast(testing::kStart + Seconds(30));
  testing::TestNode node(shared_, fast, {1, 0, true});
  const auto limit = Limit(Rate(Algorithm::kFixedWindow, 10, Seconds(60)));
  EXPECT_EQ(Decide(*node.session, {{limit.get(), 4}})[0].remaining, 6);
  clock_.Advance(Seconds(45));
  fast.Advance(Seconds(45));  // by its own clock the next window has begun
  node.line = Line::kDown;
  EXPECT_EQ(Decide(*node.session, {{limit.get(), 1}})[0].remaining, 5);
}

TEST_F(Failover, ItSaysOnceThatItStandsInAndThatItNoLongerDoes) {
  Open(2);
  const auto limit = Limit(Bucket(10, Seconds(86'400), 10));
  FailoverEngine& engine = nodes_[0]->engine;
  EXPECT_EQ(engine.TakeNews(), "");
  Cut(Line::kDown);
  Check(0, *limit);
  Check(0, *limit);
  EXPECT_EQ(engine.TakeNews(),
            "the engine cannot be asked (engine_down): limits with on_failure local are decided here, under "
            "one of 2 "
            "shares; answers say degraded");
  EXPECT_EQ(engine.TakeNews(), "");
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(engine.TakeNews(), "the engine answers again and was told what was used without it");
  EXPECT_EQ(engine.TakeNews(), "");
}

}  // namespace
}  // namespace penstock::service
