// Permits while the engine is away: a node's share of them, and what becomes of those it granted when the engine is back.
#include <gtest/gtest.h>

#include <optional>

#include "engine/permit_id.h"
#include "service/failover/testing.h"

namespace penstock::service {
namespace {

using core::PermitFate;
using engine::PermitId;
using engine::PermitVerb;
using testing::FleetTest;
using testing::Line;

constexpr Micros kLease = Seconds(30);

class FailoverPermits : public FleetTest, protected engine::PermitSink {
 protected:
  std::unique_ptr<core::Limit> Semaphore(int64_t permits) {
    return Limit({.algorithm = core::Algorithm::kPermits, .count = permits, .period = kLease});
  }
  // By a node, as its decider asks.
  std::optional<PermitId> Acquire(engine::EngineSession& session, const core::Limit& limit,
                                  int64_t weight = 1, const std::function<void(engine::Group&)>& with = {}) {
    const core::PermitAsk ask{.id = {7, ++last_id_}, .holder = "h"};
    Decide(session, {{&limit, weight}}, [&](engine::Group& group) {
      group.options.permit = &ask;
      session.Expect(batch_.operations()[0]);
      if (with) with(group);
    });
    const PermitId permit = engine::GrantedPermit(batch_.operations(), result_);
    return permit.size == 0 ? std::nullopt : std::optional(permit);
  }
  std::optional<PermitId> Acquire(size_t node, const core::Limit& limit, int64_t weight = 1) {
    return Acquire(*nodes_[node]->session, limit, weight);
  }
  PermitFate Call(size_t node, PermitVerb verb, const PermitId& permit) {
    engine::PermitCall call{.verb = verb, .permit = permit};
    answered_ = 0;
    nodes_[node]->session->CallPermits({&call, 1}, SteadyTime{INT64_MAX}, *this);
    EXPECT_EQ(answered_, 1);
    return call.fate;
  }
  PermitFate Release(size_t node, const PermitId& permit) { return Call(node, PermitVerb::kRelease, permit); }
  PermitFate Renew(size_t node, const PermitId& permit) { return Call(node, PermitVerb::kRenew, permit); }

  int64_t Held(const core::Limit& limit) {
    engine::HolderList list;
    Decide(*direct_, {{&limit, 0}}, [&](engine::Group& group) {
      group.mode = engine::Mode::kHolders;
      group.listing = &list;
    });
    return list.in_use;
  }

 private:
  void Called(engine::PermitCall&) noexcept override { ++answered_; }

  uint64_t last_id_ = 0;
  int answered_ = 0;
};

TEST_F(FailoverPermits, SharesAreNeverMoreThanN) {
  Open(4);
  const auto limit = Semaphore(5);
  Cut(Line::kDown);
  for (size_t node = 0; node < 4; ++node) {
    int granted = 0;
    while (Acquire(node, *limit) && granted < 10) ++granted;
    EXPECT_EQ(granted, node == 0 ? 2 : 1) << node;
    EXPECT_TRUE(result_.degraded);
  }
}

TEST_F(FailoverPermits, WhatIsGrantedHereIsReportedWithItsOwnExpiryAndGivenBackByAnyNode) {
  Open(2);
  const auto limit = Semaphore(2);
  Cut(Line::kDown);
  const std::optional<PermitId> permit = Acquire(0, *limit);
  ASSERT_TRUE(permit);
  EXPECT_TRUE(permit->local);
  Pass(Seconds(10));
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Held(*limit), 1);
  EXPECT_EQ(nodes_[0]->engine.failover_stats().local_buckets, 0U);
  EXPECT_EQ(Renew(1, *permit), PermitFate::kRenewed);
  EXPECT_EQ(Release(1, *permit), PermitFate::kReleased);
  EXPECT_EQ(Held(*limit), 0);
  EXPECT_EQ(Release(0, *permit), PermitFate::kUnknown);
}

TEST_F(FailoverPermits, AReportedPermitEndsWhenItsLeaseDoes) {
  Open(2);
  const auto limit = Semaphore(2);
  Cut(Line::kDown);
  ASSERT_TRUE(Acquire(0, *limit));
  Pass(Seconds(10));
  Cut(Line::kUp);
  Settle();
  Pass(Seconds(19));
  EXPECT_EQ(Held(*limit), 1);
  Pass(Seconds(2));
  EXPECT_EQ(Held(*limit), 0);
}

TEST_F(FailoverPermits, ReportsAreCountedThoughTheyPassN) {
  Open(2);
  const auto limit = Semaphore(2);
  Cut(Line::kDown);
  ASSERT_TRUE(Acquire(0, *limit));
  ASSERT_TRUE(Acquire(*direct_, *limit, 2));  // somebody who reaches the engine
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Held(*limit), 3);
  EXPECT_FALSE(Acquire(0, *limit));
}

TEST_F(FailoverPermits, WhatIsGivenBackBeforeTheReturnIsNotReported) {
  Open(2);
  const auto limit = Semaphore(2);
  Cut(Line::kDown);
  const std::optional<PermitId> permit = Acquire(0, *limit);
  ASSERT_TRUE(permit);
  EXPECT_EQ(Release(1, *permit), PermitFate::kUnavailable) << "only its own node knows of it yet";
  EXPECT_FALSE(Acquire(0, *limit));
  EXPECT_EQ(Release(0, *permit), PermitFate::kReleased);
  EXPECT_TRUE(Acquire(0, *limit));
  EXPECT_EQ(Release(0, engine::GrantedPermit(batch_.operations(), result_)), PermitFate::kReleased);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Held(*limit), 0);
}

TEST_F(FailoverPermits, ALocalPermitIsRenewedHereWhileTheEngineIsAway) {
  Open(2);
  const auto limit = Semaphore(2);
  Cut(Line::kDown);
  const std::optional<PermitId> permit = Acquire(0, *limit);
  ASSERT_TRUE(permit);
  Pass(Seconds(20));
  EXPECT_EQ(Renew(0, *permit), PermitFate::kRenewed);
  Pass(Seconds(20));
  EXPECT_EQ(Renew(0, *permit), PermitFate::kRenewed);
  Cut(Line::kUp);
  Settle();
  Pass(Seconds(25));
  EXPECT_EQ(Held(*limit), 1);
}

TEST_F(FailoverPermits, WhoSawAllOfThemInUseGrantsNoneUntilTheyMustHaveEnded) {
  Open(2);
  const auto limit = Semaphore(2);
  ASSERT_TRUE(Acquire(0, *limit, 2));
  Cut(Line::kDown);
  EXPECT_FALSE(Acquire(0, *limit));
  EXPECT_TRUE(Acquire(1, *limit)) << "it has not seen the bucket";
  Pass(kLease);
  EXPECT_TRUE(Acquire(0, *limit));
}

TEST_F(FailoverPermits, AGrantOfUnknownFateIsHeldOnce) {
  Open(1);
  const auto limit = Semaphore(4);
  nodes_[0]->line = Line::kRepliesLost;
  const std::optional<PermitId> permit = Acquire(0, *limit);
  ASSERT_TRUE(permit);
  EXPECT_TRUE(permit->local);
  Cut(Line::kUp);
  Settle();
  EXPECT_EQ(Held(*limit), 1);
  EXPECT_EQ(Release(0, *permit), PermitFate::kReleased);
  EXPECT_EQ(Held(*limit), 0);
}

}  // namespace
}  // namespace penstock::service
