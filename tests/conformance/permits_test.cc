// Permits: who holds, for how long, what comes back, and what a request with rates beside them spends.
#include "core/permits.h"

#include <algorithm>
#include <thread>

#include "permit_fixture.h"

namespace penstock::conformance {
namespace {

using core::PermitFate;
using engine::GroupState;

class Permits : public PermitsTest {};
INSTANTIATE_TEST_SUITE_P(Engines, Permits, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Permits, AtMostNAreHeldAndARefusalSaysWhenAnExpiryFreesRoom) {
  const auto limit = Registered("n", Semaphore(5, kLease));
  for (int i = 0; i < 5; ++i) {
    const Answer answer = Acquire(*limit);
    EXPECT_EQ(answer.outcome(), Outcome::kAllowed);
    EXPECT_EQ(answer[0].remaining, 4 - i);
    EXPECT_EQ(answer[0].limit, 5);
    EXPECT_EQ(answer.permit.size, 1);
    Advance(Seconds(1));
  }
  const Answer refused = Acquire(*limit);
  EXPECT_EQ(refused.outcome(), Outcome::kDenied);
  EXPECT_EQ(refused[0].retry_after, kLease - Seconds(5));
  EXPECT_EQ(refused[0].remaining, 0);
  EXPECT_EQ(refused.permit.size, 0);
  EXPECT_FALSE(refused.result.queued);
  EXPECT_EQ(Acquire(*limit, 3)[0].retry_after, kLease - Seconds(3));
  Advance(kLease - Seconds(5) - Micros{1});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  Advance({1});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
}

TEST_P(Permits, WhatIsGivenBackCanBeHeldAgainAtOnce) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  const Answer first = Acquire(*limit);
  Acquire(*limit);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  EXPECT_EQ(client_.Release(first.permit), PermitFate::kReleased);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
}

TEST_P(Permits, KeysHaveHoldersOfTheirOwn) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer a = Acquire(*limit, 1, {}, "a");
  EXPECT_EQ(Acquire(*limit, 1, {}, "b").outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*limit, 1, {}, "a").outcome(), Outcome::kDenied);
  EXPECT_EQ(client_.Release(a.permit), PermitFate::kReleased);
  EXPECT_EQ(Acquire(*limit, 1, {}, "b").outcome(), Outcome::kDenied);
  EXPECT_EQ(Acquire(*limit, 1, {}, "a").outcome(), Outcome::kAllowed);
}

TEST_P(Permits, C60ThePermitsOfWhoCrashesAndOnlyHisComeBackAfterHisOwnLease) {
  const auto limit = Registered("n", Semaphore(5, kLease));
  Acquire(*limit, 2);  // crashes
  Advance(Seconds(10));
  const Answer alive = Acquire(*limit, 3);
  Advance(kLease - Seconds(10) - Micros{1});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  Advance({1});
  EXPECT_EQ(Acquire(*limit, 3).outcome(), Outcome::kDenied);
  EXPECT_EQ(Acquire(*limit, 2).outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Release(alive.permit), PermitFate::kReleased);
  EXPECT_EQ(Acquire(*limit, 3).outcome(), Outcome::kAllowed);
}

TEST_P(Permits, WhoseLeaseRanOutIsCountedOnce) {
  const auto limit = Registered("n", Semaphore(5, kLease));
  const uint64_t before = engine_->engine().stats().reclaimed_permits;
  Acquire(*limit);
  Acquire(*limit, 3);
  const Answer returned = Acquire(*limit);
  EXPECT_EQ(client_.Release(returned.permit), PermitFate::kReleased);
  Advance(kLease);
  Acquire(*limit, 5);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  EXPECT_EQ(engine_->engine().stats().reclaimed_permits - before, 2U);
}

TEST_P(Permits, C61WhatIsNotHeldIsNotReleased) {
  const auto limit = Registered("n", Semaphore(3, kLease));
  const Answer first = Acquire(*limit);
  const Answer second = Acquire(*limit);
  engine::PermitId stranger = first.permit;
  stranger.id.low ^= 1;
  EXPECT_EQ(client_.Release(stranger), PermitFate::kUnknown);
  EXPECT_EQ(InUse(*limit), 2);
  EXPECT_EQ(client_.Release(first.permit), PermitFate::kReleased);
  EXPECT_EQ(client_.Release(first.permit), PermitFate::kUnknown);
  EXPECT_EQ(InUse(*limit), 1);
  Advance(kLease);
  EXPECT_EQ(client_.Release(second.permit), PermitFate::kExpired);
  EXPECT_EQ(InUse(*limit), 0);
  Advance(kLease - Micros{1});
  EXPECT_EQ(client_.Release(second.permit), PermitFate::kExpired);
  Advance({1});
  EXPECT_EQ(client_.Release(second.permit), PermitFate::kUnknown);
  engine::PermitId nowhere = second.permit;
  nowhere.places[0].bucket.low ^= 1;
  EXPECT_EQ(client_.Release(nowhere), PermitFate::kUnknown);
  nowhere.places[0].bucket = {};
  EXPECT_EQ(client_.Release(nowhere), PermitFate::kUnknown);
}

TEST_P(Permits, ABucketOfAnotherKindHoldsNoPermits) {
  const auto limit = Registered("n", Semaphore(3, kLease));
  const auto rate = Registered("r", Bucket(10, kHour));
  client_.Check(*rate, 4);
  Request request;
  request.asks = {{rate.get()}};
  engine::PermitId forged = Acquire(*limit).permit;
  forged.places[0].bucket = client_.Ask(request).parts[0].name;
  EXPECT_EQ(client_.Release(forged), PermitFate::kUnknown);
  EXPECT_EQ(client_.Renew(forged), PermitFate::kUnknown);
  EXPECT_EQ(client_.Leave(forged), PermitFate::kUnknown);
  EXPECT_EQ(client_.Check(*rate, 0).remaining, 5);
}

TEST_P(Permits, ARenewalLengthensAndNeverShortens) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer held = Acquire(*limit);
  EXPECT_EQ(client_.Call(engine::PermitVerb::kRenew, held.permit, Seconds(1)).expires_in, kLease);
  Advance(Seconds(20));
  const engine::PermitCall renewed = client_.Call(engine::PermitVerb::kRenew, held.permit, Seconds(15));
  EXPECT_EQ(renewed.fate, PermitFate::kRenewed);
  EXPECT_EQ(renewed.expires_in, Seconds(15));
  EXPECT_EQ(client_.Call(engine::PermitVerb::kRenew, held.permit).expires_in, kLease);
  EXPECT_EQ(client_.Call(engine::PermitVerb::kRenew, held.permit, kHour).expires_in, kLease);
  Advance(kLease - Micros{1});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  Advance({1});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
}

TEST_P(Permits, C63ALateRenewalIsToldExpiredAndHoldsNothing) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer late = Acquire(*limit);
  Advance(kLease);
  EXPECT_EQ(client_.Renew(late.permit), PermitFate::kExpired);
  EXPECT_EQ(InUse(*limit), 0);
  const Answer other = Acquire(*limit);
  EXPECT_EQ(other.outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Renew(late.permit), PermitFate::kExpired);
  EXPECT_EQ(InUse(*limit), 1);
  Advance(kLease);
  EXPECT_EQ(client_.Renew(late.permit), PermitFate::kUnknown);
  EXPECT_EQ(client_.Renew(other.permit), PermitFate::kExpired);
}

TEST_P(Permits, C62ARenewalThatMeetsAReleaseBringsNoPermitBack) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  for (int round = 0; round < 20; ++round) {
    const Answer held = Acquire(*limit);
    ASSERT_EQ(held.outcome(), Outcome::kAllowed);
    PermitFate renewed = PermitFate::kUnavailable;
    std::thread renewer([&] {
      Client other(*engine_);
      renewed = other.Renew(held.permit);
    });
    EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased) << "a false loss";
    renewer.join();
    EXPECT_TRUE(renewed == PermitFate::kRenewed || renewed == PermitFate::kUnknown);
    EXPECT_EQ(InUse(*limit), 0);
    EXPECT_EQ(client_.Renew(held.permit), PermitFate::kUnknown);
  }
}

TEST_P(Permits, C64NobodyIsEvictedByAnothersShorterLease) {
  const auto limit = Registered("n", Semaphore(2, kMinute));
  Request request = Permit(*limit);
  request.permit->lease = kMinute;
  const Answer patient = client_.Ask(request);
  request = Permit(*limit);
  request.permit->lease = Seconds(1);
  const Answer hasty = client_.Ask(request);
  EXPECT_EQ(hasty.outcome(), Outcome::kAllowed);
  Advance(Seconds(1));
  EXPECT_EQ(client_.Release(hasty.permit), PermitFate::kExpired);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Renew(patient.permit), PermitFate::kRenewed);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
}

TEST_P(Permits, C65FewerPermitsRevokeNobodyAndAnOldVersionIsStale) {
  const auto five = Registered("n", Semaphore(5, kLease));
  std::vector<Answer> held;
  for (int i = 0; i < 5; ++i) held.push_back(Acquire(*five));
  const auto two = Changed(*five, Semaphore(2, kLease));
  const Answer refused = Acquire(*two);
  EXPECT_EQ(refused.outcome(), Outcome::kDenied);
  EXPECT_EQ(refused[0].remaining, 0);
  EXPECT_EQ(refused[0].limit, 2);
  EXPECT_EQ(client_.Ask(Permit(*five)).result.state, GroupState::kStale);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client_.Release(held[i].permit), PermitFate::kReleased);
    EXPECT_EQ(Acquire(*two).outcome(), Outcome::kDenied);
  }
  EXPECT_EQ(client_.Renew(held[4].permit), PermitFate::kRenewed);
  EXPECT_EQ(client_.Release(held[3].permit), PermitFate::kReleased);
  EXPECT_EQ(Acquire(*two).outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*two).outcome(), Outcome::kDenied);
  const auto ten = Changed(*two, Semaphore(10, kLease));
  EXPECT_EQ(Acquire(*ten, 8).outcome(), Outcome::kAllowed);
}

TEST_P(Permits, C70AWeightAboveNIsNever) {
  const auto limit = Registered("n", Semaphore(5, kLease));
  Request request = Permit(*limit, 6);
  request.permit->queue_for = kMinute;
  const Answer answer = client_.Ask(request);
  EXPECT_EQ(answer.outcome(), Outcome::kNever);
  EXPECT_FALSE(answer.result.queued);
  EXPECT_EQ(Acquire(*limit, 5).outcome(), Outcome::kAllowed);
}

TEST_P(Permits, C71WeightZeroIsAPeekAndALeaseIsAtMostTheLimits) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  const Answer peek = Acquire(*limit, 0);
  EXPECT_EQ(peek.outcome(), Outcome::kAllowed);
  EXPECT_EQ(peek[0].remaining, 2);
  EXPECT_EQ(peek.permit.size, 0);
  EXPECT_EQ(InUse(*limit), 0);
  Request request = Permit(*limit);
  request.permit->lease = kDay;
  EXPECT_EQ(core::Permits::ExpiryOf(client_.Ask(request).parts[0].charge), engine_->now() + kLease);
  request = Permit(*limit);
  request.permit->lease = Millis(1);
  EXPECT_EQ(core::Permits::ExpiryOf(client_.Ask(request).parts[0].charge), engine_->now() + Millis(1));
  EXPECT_EQ(client_.Check(*limit, 0).outcome, Outcome::kAllowed) << "a peek passes while at most N are held";
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 0);
}

TEST_P(Permits, C72ASemaphoreWithoutHoldersStillHasItsNAndItsFence) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  int64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    const Answer a = Acquire(*limit);
    const Answer b = Acquire(*limit);
    EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
    EXPECT_GT(a.permit.places[0].fence, last);
    EXPECT_GT(b.permit.places[0].fence, a.permit.places[0].fence);
    last = b.permit.places[0].fence;
    EXPECT_EQ(client_.Release(a.permit), PermitFate::kReleased);
    EXPECT_EQ(client_.Release(b.permit), PermitFate::kReleased);
    EXPECT_EQ(InUse(*limit), 0);
  }
}

TEST_P(Permits, C73AFenceIsLargerThanEveryEarlierOneThoughAllHasExpired) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  Acquire(*limit);
  const int64_t last = Acquire(*limit).permit.places[0].fence;
  EXPECT_GE(last, kStart.us);
  Advance(kLease * 3);
  EXPECT_GT(Acquire(*limit).permit.places[0].fence, last);
}

TEST_P(Permits, C28ARequestCountsOneRequestItsTokensAndOnePermitOrNothing) {
  const auto requests = Registered("rpm", Bucket(3, kHour));
  const auto tokens = Registered("tpm", Bucket(1'000, kHour));
  const auto permits = Registered("n", Semaphore(2, kLease));
  const auto ask = [&](int64_t spent) {
    Request request = Permit(*permits);
    request.asks = {{requests.get(), "k", 1, 0}, {tokens.get(), "k", spent, 1}, {permits.get(), "k", 1, 2}};
    return client_.Ask(request);
  };
  const Answer first = ask(500);
  EXPECT_EQ(first.outcome(), Outcome::kAllowed);
  EXPECT_EQ(first[0].remaining, 2);
  EXPECT_EQ(first[1].remaining, 500);
  EXPECT_EQ(first[2].remaining, 1);
  EXPECT_EQ(ask(501).outcome(), Outcome::kDenied) << "the tokens refuse";
  EXPECT_EQ(InUse(*permits), 1);
  const Answer second = ask(100);
  EXPECT_EQ(second.outcome(), Outcome::kAllowed);
  EXPECT_EQ(ask(100).outcome(), Outcome::kDenied) << "the permits refuse";
  EXPECT_EQ(client_.Check(*requests, 0).remaining, 1);
  EXPECT_EQ(client_.Check(*tokens, 0).remaining, 400);
  EXPECT_EQ(client_.Release(second.permit), PermitFate::kReleased);
  EXPECT_EQ(ask(100).outcome(), Outcome::kAllowed);
  EXPECT_EQ(ask(100).outcome(), Outcome::kDenied) << "the requests refuse";
  EXPECT_EQ(client_.Check(*tokens, 0).remaining, 300);
}

TEST_P(Permits, C69ARefusalByPermitsLeavesTheRateOfTheRequest) {
  const auto rate = Registered("r", Fixed(10, kHour));
  const auto permits = Registered("n", Semaphore(1, kLease));
  Acquire(*permits);
  for (const Micros queue_for : {Micros{}, kMinute}) {
    Request request = Permit(*permits);
    request.permit->queue_for = queue_for;
    request.asks = {{rate.get()}, {permits.get()}};
    const Answer answer = client_.Ask(request);
    EXPECT_EQ(answer.outcome(), Outcome::kDenied);
    EXPECT_EQ(answer.result.queued, queue_for.count > 0);
    EXPECT_EQ(client_.Check(*rate, 0).remaining, 10);
  }
}

TEST_P(Permits, OneIdHoldsAllPermitLimitsOfARequestOrNone) {
  const auto wide = Registered("wide", Semaphore(5, kMinute));
  const auto narrow = Registered("narrow", Semaphore(1, kLease));
  Request request = Permit(*wide);
  request.asks = {{wide.get()}, {narrow.get()}};
  const Answer both = client_.Ask(request);
  EXPECT_EQ(both.outcome(), Outcome::kAllowed);
  EXPECT_EQ(both.permit.size, 2);
  EXPECT_EQ(both.result.permit_id, request.permit->id);
  request.permit = NewAsk();
  EXPECT_EQ(client_.Ask(request).outcome(), Outcome::kDenied);
  EXPECT_EQ(InUse(*wide), 1);
  EXPECT_EQ(InUse(*narrow), 1);
  Advance(Seconds(10));
  EXPECT_EQ(client_.Call(engine::PermitVerb::kRenew, both.permit).expires_in, kLease) << "the earliest";
  Advance(kLease);
  EXPECT_EQ(client_.Renew(both.permit), PermitFate::kExpired) << "lost in one";
  EXPECT_EQ(client_.Release(both.permit), PermitFate::kExpired);
  EXPECT_EQ(InUse(*wide), 0) << "given back where it was held";
}

TEST_P(Permits, ARepeatUnderARequestIdIsToldTheFirstPermit) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  Request request = Permit(*limit);
  request.request_id = "id-1";
  const Answer first = client_.Ask(request);
  EXPECT_EQ(first.result.permit_id, request.permit->id);
  request.permit = NewAsk();
  const Answer again = client_.Ask(request);
  EXPECT_TRUE(again.result.replayed);
  EXPECT_EQ(again.outcome(), Outcome::kAllowed);
  EXPECT_EQ(again.result.permit_id, first.result.permit_id);
  EXPECT_EQ(again.permit, first.permit);
  EXPECT_EQ(InUse(*limit), 1);
  EXPECT_EQ(client_.Release(again.permit), PermitFate::kReleased);
  EXPECT_EQ(InUse(*limit), 0);
}

TEST_P(Permits, AShadowSemaphoreRefusesNobodyAndIsHeldWhereItHasRoom) {
  const auto enforced = Registered("n", Semaphore(3, kLease));
  auto shadow = MakeLimit("s", Semaphore(1, kLease));
  shadow->shadow = true;
  client_.Register({shadow.get()});
  Request request = Permit(*enforced);
  request.asks = {{shadow.get()}, {enforced.get()}};
  const Answer first = client_.Ask(request);
  EXPECT_EQ(first.permit.size, 2);
  request.permit = NewAsk();
  const Answer second = client_.Ask(request);
  EXPECT_EQ(second[0].outcome, Outcome::kDenied);
  EXPECT_EQ(second[1].outcome, Outcome::kAllowed);
  EXPECT_EQ(second.permit.size, 1);
  EXPECT_EQ(InUse(*shadow), 1);
  EXPECT_EQ(InUse(*enforced), 2);
  EXPECT_EQ(client_.Release(second.permit), PermitFate::kReleased);
  EXPECT_EQ(client_.Release(first.permit), PermitFate::kReleased);
  EXPECT_EQ(InUse(*shadow), 0);
}

TEST_P(Permits, HoldersAreListedInTheOrderOfTheirExpiries) {
  const auto limit = Registered("n", Semaphore(10, kMinute));
  std::vector<Answer> held;
  for (int i = 0; i < 3; ++i) {
    Request request = Permit(*limit, i + 1);
    request.permit->lease = Seconds(30 - 10 * i);
    request.permit->holder = i == 1 ? "worker" : "";
    held.push_back(client_.Ask(request));
  }
  Advance(Seconds(5));
  const engine::HolderList list = client_.Holders(*limit);
  EXPECT_EQ(list.in_use, 6);
  EXPECT_EQ(list.waiting, 0);
  EXPECT_FALSE(list.more);
  ASSERT_EQ(list.entries.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const engine::HolderList::Entry& entry = list.entries[i];
    const Answer& answer = held[2 - i];
    EXPECT_EQ(entry.id, answer.permit.id);
    EXPECT_EQ(entry.weight, answer.permit.weight);
    EXPECT_EQ(entry.fence, answer.permit.places[0].fence);
    EXPECT_EQ(entry.expires_in, Seconds(5 + 10 * i));
    EXPECT_EQ(entry.holder, i == 1 ? "worker" : "");
  }
  EXPECT_EQ(list.bucket, held[0].permit.places[0].bucket);
  const engine::HolderList workers = client_.Holders(*limit, "worker");
  ASSERT_EQ(workers.entries.size(), 1U);
  EXPECT_EQ(workers.in_use, 6);
  // An entry and the bucket's name make the id by which an operator gives it back.
  engine::PermitId permit{.id = workers.entries[0].id, .weight = workers.entries[0].weight, .size = 1};
  permit.places[0] = {workers.bucket, workers.entries[0].fence};
  EXPECT_EQ(client_.Release(permit), PermitFate::kReleased);
  Advance(Seconds(20));
  EXPECT_EQ(client_.Holders(*limit).entries.size(), 1U);
  EXPECT_EQ(client_.Holders(*limit, {}, "nobody").entries.size(), 0U);
}

TEST_P(Permits, OnlySoManyHoldersAreListed) {
  constexpr int64_t kHeld = engine::HolderList::kMaxEntries + 1;
  const auto limit = Registered("n", Semaphore(kHeld, kMinute));
  std::vector<Request> requests;
  for (int64_t i = 0; i < kHeld; ++i) requests.push_back(Permit(*limit));
  for (size_t first = 0; first < requests.size(); first += 100) {
    const size_t end = std::min(first + 100, requests.size());
    client_.Ask(
        {requests.begin() + static_cast<ptrdiff_t>(first), requests.begin() + static_cast<ptrdiff_t>(end)});
  }
  const engine::HolderList list = client_.Holders(*limit);
  EXPECT_EQ(list.in_use, kHeld);
  EXPECT_EQ(list.entries.size(), engine::HolderList::kMaxEntries);
  EXPECT_TRUE(list.more);
}

TEST_P(Permits, AResetGivesAllBack) {
  const auto limit = Registered("n", Semaphore(3, kLease));
  const Answer held = Acquire(*limit, 3);
  Request request;
  request.mode = engine::Mode::kReset;
  request.asks = {{limit.get()}};
  EXPECT_EQ(client_.Ask(request)[0].remaining, 3);
  EXPECT_EQ(InUse(*limit), 0);
  EXPECT_EQ(client_.Renew(held.permit), PermitFate::kUnknown);
  const Answer later = Acquire(*limit, 3);
  EXPECT_EQ(later.outcome(), Outcome::kAllowed);
  EXPECT_GT(later.permit.places[0].fence, held.permit.places[0].fence);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kUnknown);
}

TEST_P(Permits, AnUndoGivesBackByIdAndALateReportMayPassN) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  Request request = Permit(*limit);
  const Answer held = client_.Ask(request);
  const auto adjust = [&](const core::PermitAsk& ask, const core::Charge& charge, int64_t delta) {
    Request change;
    change.mode = engine::Mode::kAdjust;
    change.permit = ask;
    change.asks = {{limit.get(), "k", delta}};
    change.asks[0].charge = charge;
    EXPECT_EQ(client_.Ask(change).result.state, GroupState::kDecided);
  };
  const EngineTime now = engine_->now();
  const core::Charge elsewhere{.at = now, .window = {now.us + 9}, .debt_before = (now + kLease).us};
  const core::PermitAsk late = NewAsk();
  adjust(late, elsewhere, 2);
  EXPECT_EQ(InUse(*limit), 3);
  adjust(NewAsk(), {.debt_before = now.us}, 1);
  EXPECT_EQ(InUse(*limit), 3) << "expired meanwhile";
  adjust(*request.permit, held.parts[0].charge, -1);
  EXPECT_EQ(InUse(*limit), 2);
  adjust(*request.permit, held.parts[0].charge, -1);
  EXPECT_EQ(InUse(*limit), 2);
  engine::PermitId reported{.id = late.id, .weight = 2, .size = 1};
  reported.places[0] = {held.permit.places[0].bucket, now.us + 9};
  EXPECT_EQ(client_.Release(reported), PermitFate::kReleased);
  EXPECT_EQ(InUse(*limit), 0);
  EXPECT_GT(Acquire(*limit).permit.places[0].fence, now.us + 9);
}

TEST_P(Permits, ASettleLeavesThePermit) {
  const auto tokens = Registered("tpm", Bucket(100, kHour));
  const auto permits = Registered("n", Semaphore(2, kLease));
  Request request = Permit(*permits);
  request.asks = {{tokens.get(), "k", 50, 0}, {permits.get(), "k", 1, 1}};
  request.request_id = "id-1";
  const Answer held = client_.Ask(request);
  request.mode = engine::Mode::kSettle;
  request.permit.reset();
  request.asks[0].cost = 20;
  request.asks[1].cost = 0;
  EXPECT_EQ(client_.Ask(request)[0].remaining, 80);
  EXPECT_EQ(InUse(*permits), 1);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
}

}  // namespace
}  // namespace penstock::conformance
