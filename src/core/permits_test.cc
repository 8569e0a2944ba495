#include "core/permits.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "core/testing/bucket_book.h"
#include "core/testing/permit_book.h"

namespace penstock::core {
namespace {

constexpr EngineTime kStart{1'785'000'000'000'000};
constexpr Micros kLease = Seconds(30);

RateSpec Semaphore(int64_t permits, Micros lease = kLease) {
  return {.algorithm = Algorithm::kPermits, .count = permits, .period = lease};
}

class PermitsTest : public ::testing::Test {
 protected:
  PermitsTest() { Set(5); }

  void Set(int64_t permits, Micros lease = kLease) {
    limit_.params = *CompileRate(Semaphore(permits, lease));
    limit_.version = 1;
  }
  Verdict Acquire(uint64_t id, int64_t weight = 1, Micros queue_for = {}, Micros lease = {}) {
    const PermitAsk ask{.id = {id, id}, .lease = lease, .queue_for = queue_for};
    Operation operation;
    operation.limit = &limit_;
    operation.cost = weight;
    operation.bucket = book_.View(limit_.params, ask.id, now_);
    EXPECT_EQ(DecideGroup({&operation, 1}, {.permit = &ask}, now_), GroupStatus::kDecided);
    book_.Apply(operation.edit, operation.charge, ask);
    charge_ = operation.charge;
    return operation.verdict;
  }
  bool Granted(uint64_t id, int64_t weight = 1) { return Acquire(id, weight).outcome == Outcome::kAllowed; }
  PermitFate Release(uint64_t id) { return book_.Release({id, id}, now_); }

  Limit limit_;
  testing::PermitBook book_;
  EngineTime now_ = kStart;
  Charge charge_;
};

TEST_F(PermitsTest, AtMostNAreHeldAndARefusalSaysWhenAnExpiryFreesRoom) {
  for (uint64_t id = 1; id <= 5; ++id) {
    EXPECT_EQ(Acquire(id).remaining, static_cast<int64_t>(5 - id));
    now_ = now_ + Seconds(1);
  }
  const Verdict refused = Acquire(6);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, kLease - Seconds(5));
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(Acquire(6, 3).retry_after, kLease - Seconds(3));
  EXPECT_EQ(Release(3), PermitFate::kReleased);
  EXPECT_TRUE(Granted(6));
}

TEST_F(PermitsTest, AWeightAboveNIsNever) {
  EXPECT_EQ(Acquire(1, 6).outcome, Outcome::kNever);
  EXPECT_TRUE(Granted(1, 5));
}

// C71: weight 0.
TEST_F(PermitsTest, APeekHoldsNothingAndPassesUnlessMoreThanNAreHeld) {
  EXPECT_EQ(Acquire(1, 0).outcome, Outcome::kAllowed);
  EXPECT_TRUE(book_.holders().empty());
  ASSERT_TRUE(Granted(1, 5));
  EXPECT_EQ(Acquire(2, 0).outcome, Outcome::kAllowed);
  Set(4);
  EXPECT_EQ(Acquire(2, 0).outcome, Outcome::kDenied);
}

// C60, C64.
TEST_F(PermitsTest, EachPermitEndsWithItsOwnLease) {
  ASSERT_EQ(Acquire(1, 2, {}, Seconds(5)).outcome, Outcome::kAllowed);
  ASSERT_EQ(Acquire(2, 3).outcome, Outcome::kAllowed);
  now_ = now_ + Seconds(5) - Micros{1};
  EXPECT_EQ(Acquire(3).retry_after, Micros{1});
  now_ = now_ + Micros{1};
  EXPECT_EQ(Acquire(3, 3).outcome, Outcome::kDenied);
  EXPECT_TRUE(Granted(3, 2));
  EXPECT_EQ(book_.in_use(now_), 5);
}

TEST_F(PermitsTest, ALeaseIsNeverLongerThanTheLimits) {
  Acquire(1, 1, {}, Seconds(3'600));
  EXPECT_EQ(Permits::ExpiryOf(charge_), now_ + kLease);
}

// C61, C63.
TEST_F(PermitsTest, WhatIsNotHeldIsNeitherReleasedNorRenewed) {
  Acquire(1);
  EXPECT_EQ(Release(7), PermitFate::kUnknown);
  EXPECT_EQ(Release(1), PermitFate::kReleased);
  EXPECT_EQ(Release(1), PermitFate::kUnknown);
  Acquire(2);
  now_ = now_ + kLease;
  EXPECT_EQ(Release(2), PermitFate::kExpired);
  EXPECT_EQ(book_.Renew({2, 2}, kLease, now_), PermitFate::kExpired);
  EXPECT_EQ(book_.in_use(now_), 0);
  now_ = now_ + kLease;
  Acquire(3);  // forgets
  EXPECT_EQ(Release(2), PermitFate::kUnknown);
}

TEST_F(PermitsTest, ARenewalNeverShortens) {
  Acquire(1);
  EXPECT_EQ(book_.Renew({1, 1}, Seconds(1), now_), PermitFate::kRenewed);
  EXPECT_EQ(book_.holders()[0].expires_at, now_ + kLease);
  now_ = now_ + Seconds(10);
  EXPECT_EQ(book_.Renew({1, 1}, kLease, now_), PermitFate::kRenewed);
  EXPECT_EQ(book_.holders()[0].expires_at, now_ + kLease);
}

// C73.
TEST_F(PermitsTest, AFenceIsGreaterThanEveryEarlierOneEvenOfAForgottenBucket) {
  Acquire(1);
  const int64_t first = Permits::FenceOf(charge_);
  Acquire(2);
  EXPECT_EQ(Permits::FenceOf(charge_), first + 1);
  now_ = now_ + kLease * 3;
  book_ = {};
  Acquire(3);
  EXPECT_GT(Permits::FenceOf(charge_), first + 1);
}

// C65.
TEST_F(PermitsTest, FewerPermitsRevokeNobodyAndGrantNothingUntilUseHasFallen) {
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(Granted(id));
  Set(2);
  EXPECT_EQ(book_.in_use(now_), 5);
  for (uint64_t id = 1; id <= 3; ++id) {
    Release(id);
    EXPECT_FALSE(Granted(10 + id));
  }
  Release(4);
  EXPECT_TRUE(Granted(20));
}

// C74, C70.
TEST_F(PermitsTest, NobodyOvertakesAQueueAndAHeavyWaiterIsServedInHisTurn) {
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(Granted(id));
  EXPECT_TRUE(Acquire(10, 5, kLease).queued);
  EXPECT_TRUE(Acquire(11, 1, kLease).queued);
  for (uint64_t id = 1; id <= 4; ++id) Release(id);
  EXPECT_FALSE(Acquire(12).queued);
  EXPECT_EQ(Acquire(12).outcome, Outcome::kDenied);
  EXPECT_TRUE(Acquire(11, 1, kLease).queued) << "there is room for it, but it is not its turn";
  EXPECT_TRUE(Acquire(10, 5, kLease).queued);
  Release(5);
  EXPECT_FALSE(Granted(12));
  EXPECT_TRUE(Granted(10, 5));
  ASSERT_EQ(book_.waiters().size(), 1U);
  Release(10);
  EXPECT_TRUE(Granted(11));
  EXPECT_TRUE(Granted(12));
}

TEST_F(PermitsTest, WhereTheStoreMayHaveLostGrantsAStrictLimitGrantsNothingUntilTheyMustHaveEnded) {
  const auto ask = [&](uint64_t id) {
    const PermitAsk permit{.id = {id, id}};
    Operation operation;
    operation.limit = &limit_;
    operation.cost = 1;
    operation.granted_from = kStart + kLease;
    operation.bucket = book_.View(limit_.params, permit.id, now_);
    EXPECT_EQ(DecideGroup({&operation, 1}, {.permit = &permit}, now_), GroupStatus::kDecided);
    book_.Apply(operation.edit, operation.charge, permit);
    return operation.verdict;
  };
  EXPECT_EQ(ask(1).outcome, Outcome::kAllowed) << "not strict";
  limit_.strict = true;
  now_ = kStart + Seconds(1);
  EXPECT_EQ(ask(2).outcome, Outcome::kDenied);
  EXPECT_EQ(ask(2).retry_after, kLease - Seconds(1));
  now_ = kStart + kLease;
  EXPECT_EQ(ask(2).outcome, Outcome::kAllowed);
}

// C69, and section 5: the rate's refusal ends the wait.
TEST_F(PermitsTest, WithARateBothAreTakenOrNeitherAndOnlyPermitsQueue) {
  testing::TestLimit rate({.count = 1, .period = Seconds(60)});
  const auto ask = [&](uint64_t id, Micros queue_for) {
    const PermitAsk permit{.id = {id, id}, .queue_for = queue_for};
    std::vector<Operation> operations{rate.Ask(1), {}};
    operations[1].limit = &limit_;
    operations[1].cost = 1;
    operations[1].bucket = book_.View(limit_.params, permit.id, now_);
    EXPECT_EQ(DecideGroup(operations, {.permit = &permit}, now_), GroupStatus::kDecided);
    rate.bucket.Apply(rate.limit, operations[0].edit);
    book_.Apply(operations[1].edit, operations[1].charge, permit);
    return operations;
  };
  Set(1);
  ASSERT_TRUE(Granted(1));
  EXPECT_TRUE(ask(2, kLease)[1].verdict.queued);
  EXPECT_FALSE(rate.bucket.present()) << "the rate is not spent";
  Release(1);
  EXPECT_EQ(GroupOutcome(ask(2, kLease)), Outcome::kAllowed);
  const std::vector<Operation> refused = ask(3, kLease);
  EXPECT_EQ(GroupOutcome(refused), Outcome::kDenied);
  EXPECT_FALSE(refused[1].verdict.queued) << "the rate refuses too";
  EXPECT_TRUE(book_.waiters().empty());
  Release(2);
  EXPECT_EQ(GroupOutcome(ask(3, kLease)), Outcome::kDenied);
  EXPECT_EQ(book_.in_use(now_), 0);
}

TEST_F(PermitsTest, AnUndoGivesBackByIdWhateverTheLimitHasBecomeAndALateReportMayPassN) {
  Set(1);
  ASSERT_TRUE(Granted(1));
  const auto adjust = [&](uint64_t id, const Charge& charge, int64_t delta) {
    const PermitAsk ask{.id = {id, id}};
    Operation operation;
    operation.limit = &limit_;
    operation.bucket = book_.View(limit_.params, ask.id, now_);
    AdjustCharge(operation, charge, delta, now_, &ask);
    book_.Apply(operation.edit, operation.charge, ask);
    return operation.edit.write;
  };
  const Charge first = charge_;
  const Charge elsewhere{.at = now_, .window = {now_.us + 9}, .debt_before = (now_ + kLease).us};
  adjust(2, elsewhere, 2);
  EXPECT_EQ(book_.in_use(now_), 3);
  adjust(3, {.debt_before = now_.us}, 1);
  EXPECT_EQ(book_.in_use(now_), 3) << "expired meanwhile";
  limit_.version = 2;
  adjust(1, first, -1);
  EXPECT_EQ(book_.in_use(now_), 2);
  EXPECT_TRUE(adjust(1, first, -1)) << "the bucket is under an older version, and comes under this one";
  EXPECT_EQ(book_.in_use(now_), 2);
  limit_.version = 1;
  EXPECT_FALSE(adjust(1, first, -1)) << "nobody is there";
}

// Crashes, releases and renewals at random, judged by the holders' own deadlines.
TEST_F(PermitsTest, NeverMoreThanNUnexpiredHoldersAndAllComeBackOneLeaseAfterTheLastCrash) {
  Random random(TestSeed());
  struct Mine {
    EngineTime deadline;
    int64_t weight;
  };
  std::map<uint64_t, Mine> mine;
  uint64_t next = 1;
  for (int step = 0; step < 20'000; ++step) {
    now_ = now_ + Micros{random.Between(0, 2'000'000)};
    const uint64_t pick = next - std::min<uint64_t>(next, random.Below(12));
    if (random.Below(2) == 0) {
      const int64_t weight = random.Between(1, 3);
      if (Acquire(next, weight).outcome == Outcome::kAllowed)
        mine[next] = {Permits::ExpiryOf(charge_), weight};
      ++next;
    } else if (random.Below(2) == 0) {
      const auto own = mine.find(pick);
      const bool held = own != mine.end() && own->second.deadline > now_;
      EXPECT_EQ(Release(pick) == PermitFate::kReleased, held);
      if (held) mine.erase(own);
    } else if (book_.Renew({pick, pick}, kLease, now_) == PermitFate::kRenewed) {
      ASSERT_GT(mine.at(pick).deadline, now_);
      mine[pick].deadline = now_ + kLease;
    }
    int64_t held = 0;
    for (const auto& [id, permit] : mine) held += permit.deadline > now_ ? permit.weight : 0;
    ASSERT_LE(held, 5) << "step " << step;
    ASSERT_EQ(held, book_.in_use(now_)) << "step " << step;
  }
  now_ = now_ + kLease;
  EXPECT_TRUE(Granted(next, 5));
}

}  // namespace
}  // namespace penstock::core
