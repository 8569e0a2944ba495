// Waiting for permits: who is next, who is woken, who leaves.
#include <algorithm>

#include "permit_fixture.h"

namespace penstock::conformance {
namespace {

using core::PermitFate;
using engine::GroupState;

class PermitQueue : public PermitsTest {
 protected:
  // Asks again under the same id, as a waiter does.
  Answer Again(const core::Limit& limit, const Answer& waiting, int64_t weight = 1,
               Micros queue_for = kMinute) {
    Request request;
    request.asks = {{&limit, "k", weight}};
    request.permit = core::PermitAsk{.id = waiting.waiting.id, .queue_for = queue_for};
    return client_.Ask(request);
  }
  Answer Wait(const core::Limit& limit, int64_t weight = 1, Micros queue_for = kMinute) {
    const Answer answer = Acquire(limit, weight, queue_for);
    EXPECT_EQ(answer.outcome(), Outcome::kDenied);
    EXPECT_TRUE(answer.result.queued);
    return answer;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, PermitQueue, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(PermitQueue, WhoIsQueuedIsToldSoAndWhenToAskAgain) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  Request brief = Permit(*limit);
  brief.permit->lease = Millis(300);
  EXPECT_EQ(client_.Ask(brief).outcome(), Outcome::kAllowed);
  const Answer soon = Wait(*limit);
  EXPECT_TRUE(soon[0].queued);
  EXPECT_EQ(soon[0].taken, 0);
  EXPECT_EQ(soon.permit.size, 0);
  EXPECT_LE(soon.result.ask_again_after, Millis(300));
  EXPECT_GE(soon.result.ask_again_after, Millis(1));
  EXPECT_EQ(Waiting(*limit), 1);
  // C66: a wake-up that is lost costs no more than that.
  Advance(Millis(300));
  const Answer served = Again(*limit, soon);
  EXPECT_EQ(served.outcome(), Outcome::kAllowed);
  EXPECT_EQ(served.result.permit_id, soon.waiting.id);
  EXPECT_FALSE(served.result.queued);
  EXPECT_EQ(Waiting(*limit), 0);
}

TEST_P(PermitQueue, WaitersAreServedInTheOrderInWhichTheyCame) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  Answer held = Acquire(*limit);
  std::vector<Answer> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(Wait(*limit));
  for (size_t turn = 0; turn < waiting.size(); ++turn) {
    EXPECT_EQ(Waiting(*limit), static_cast<int64_t>(waiting.size() - turn));
    EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
    for (size_t other = waiting.size(); other-- > turn + 1;) {
      const Answer early = Again(*limit, waiting[other]);
      EXPECT_EQ(early.outcome(), Outcome::kDenied);
      EXPECT_TRUE(early.result.queued) << "in his old place";
    }
    held = Again(*limit, waiting[turn]);
    EXPECT_EQ(held.outcome(), Outcome::kAllowed) << turn;
  }
}

TEST_P(PermitQueue, C74WhoDoesNotWaitDoesNotOvertake) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  const Answer held = Acquire(*limit, 2);
  const Answer waiting = Wait(*limit);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  const Answer refused = Acquire(*limit);
  EXPECT_EQ(refused.outcome(), Outcome::kDenied);
  EXPECT_FALSE(refused.result.queued);
  EXPECT_EQ(Acquire(*limit, 0).outcome(), Outcome::kAllowed) << "a peek takes nothing from those who wait";
  EXPECT_EQ(Again(*limit, waiting).outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, C70AHeavyWaiterIsServedInHisTurn) {
  const auto limit = Registered("n", Semaphore(3, kLease));
  std::vector<Answer> held;
  for (int i = 0; i < 3; ++i) held.push_back(Acquire(*limit));
  const Answer heavy = Wait(*limit, 3);
  const Answer light = Wait(*limit);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Again(*limit, heavy, 3).outcome(), Outcome::kDenied);
    EXPECT_EQ(client_.Release(held[i].permit), PermitFate::kReleased);
    EXPECT_EQ(Again(*limit, light).outcome(), Outcome::kDenied) << "there is room, but it is not his turn";
  }
  EXPECT_EQ(Again(*limit, heavy, 3).outcome(), Outcome::kAllowed);
  EXPECT_EQ(Again(*limit, light).outcome(), Outcome::kDenied);
}

TEST_P(PermitQueue, WhoLeavesMakesWayForTheNext) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  Acquire(*limit);
  const Answer heavy = Wait(*limit, 2);
  const Answer light = Wait(*limit);
  EXPECT_EQ(Again(*limit, light).outcome(), Outcome::kDenied);
  EXPECT_EQ(client_.Leave(heavy.waiting), PermitFate::kReleased);
  EXPECT_EQ(client_.Leave(heavy.waiting), PermitFate::kUnknown);
  EXPECT_EQ(Waiting(*limit), 1);
  EXPECT_EQ(Again(*limit, light).outcome(), Outcome::kAllowed);
  EXPECT_TRUE(Again(*limit, heavy, 2).result.queued) << "at the tail";
}

TEST_P(PermitQueue, C67WhoGivesUpAtTheInstantOfHisGrantHandsItBack) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer held = Acquire(*limit);
  const Answer waiting = Wait(*limit);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  const Answer granted = Again(*limit, waiting);
  EXPECT_EQ(granted.outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Leave(waiting.waiting), PermitFate::kUnknown) << "he waits no more";
  EXPECT_EQ(InUse(*limit), 1);
  EXPECT_EQ(client_.Release(granted.permit), PermitFate::kReleased);
  EXPECT_EQ(InUse(*limit), 0);
}

TEST_P(PermitQueue, WhoDoesNotAskAgainLosesHisPlaceWhenHisTimeIsOver) {
  const auto limit = Registered("n", Semaphore(1, kMinute));
  const Answer held = Acquire(*limit);
  Wait(*limit, 1, Millis(500));
  const Answer patient = Wait(*limit);
  Advance(Millis(500));
  EXPECT_EQ(Waiting(*limit), 1);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  EXPECT_EQ(Again(*limit, patient).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, WhoWaitsNoLongerIsRefusedWithoutAPlace) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  Acquire(*limit);
  const Answer waiting = Wait(*limit);
  const Answer last = Again(*limit, waiting, 1, {});
  EXPECT_EQ(last.outcome(), Outcome::kDenied);
  EXPECT_FALSE(last.result.queued);
  EXPECT_EQ(Waiting(*limit), 0);
}

TEST_P(PermitQueue, ARateThatRefusesEndsTheWait) {
  const auto rate = Registered("r", Fixed(1, kHour));
  const auto permits = Registered("n", Semaphore(1, kLease));
  const Answer held = Acquire(*permits);
  Request request = Permit(*permits, 1, kMinute);
  request.asks = {{rate.get()}, {permits.get()}};
  EXPECT_TRUE(client_.Ask(request).result.queued);
  EXPECT_EQ(client_.Check(*rate, 1).outcome, Outcome::kAllowed);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  const Answer turn = client_.Ask(request);
  EXPECT_EQ(turn.outcome(), Outcome::kDenied);
  EXPECT_FALSE(turn.result.queued);
  EXPECT_EQ(Waiting(*permits), 0);
  EXPECT_EQ(Acquire(*permits).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, ARequestStandsInOneQueueTheFirstThatRefuses) {
  const auto first = Registered("first", Semaphore(1, kLease));
  const auto second = Registered("second", Semaphore(1, kLease));
  const Answer in_first = Acquire(*first);
  const Answer in_second = Acquire(*second);
  Request request = Permit(*first, 1, kMinute);
  request.asks = {{first.get()}, {second.get()}};
  EXPECT_TRUE(client_.Ask(request).result.queued);
  EXPECT_EQ(Waiting(*first), 1);
  EXPECT_EQ(Waiting(*second), 0);
  EXPECT_EQ(client_.Release(in_first.permit), PermitFate::kReleased);
  EXPECT_TRUE(client_.Ask(request).result.queued) << "moved to the other's tail";
  EXPECT_EQ(Waiting(*first), 0);
  EXPECT_EQ(Waiting(*second), 1);
  EXPECT_EQ(client_.Release(in_second.permit), PermitFate::kReleased);
  const Answer granted = client_.Ask(request);
  EXPECT_EQ(granted.outcome(), Outcome::kAllowed);
  EXPECT_EQ(granted.permit.size, 2);
  EXPECT_EQ(Waiting(*second), 0);
}

TEST_P(PermitQueue, AReleaseWakesTheHead) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer held = Acquire(*limit);
  const Answer waiting = Wait(*limit);
  Client elsewhere(*engine_);
  EXPECT_EQ(elsewhere.Release(held.permit), PermitFate::kReleased);
  client_.RunUntilWoken(waiting.waiting.id);
  EXPECT_EQ(Again(*limit, waiting).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, WhereThereIsStillRoomTheNextIsWokenToo) {
  const auto limit = Registered("n", Semaphore(3, kLease));
  const Answer held = Acquire(*limit, 3);
  std::vector<Answer> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(Wait(*limit));
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  for (const Answer& next : waiting) {
    client_.RunUntilWoken(next.waiting.id);
    EXPECT_EQ(Again(*limit, next).outcome(), Outcome::kAllowed);
  }
}

TEST_P(PermitQueue, WhoLeavesLetsTheNextBeWoken) {
  const auto limit = Registered("n", Semaphore(2, kLease));
  Acquire(*limit);
  const Answer heavy = Wait(*limit, 2);
  const Answer light = Wait(*limit);
  EXPECT_EQ(client_.Leave(heavy.waiting), PermitFate::kReleased);
  client_.RunUntilWoken(light.waiting.id);
  EXPECT_EQ(Again(*limit, light).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, C65MorePermitsWakeThoseWhoWait) {
  const auto one = Registered("n", Semaphore(1, kLease));
  Acquire(*one);
  const Answer waiting = Wait(*one);
  const auto two = Changed(*one, Semaphore(2, kLease));
  EXPECT_EQ(client_.Ask(Permit(*two)).outcome(), Outcome::kDenied) << "others wait before him";
  client_.RunUntilWoken(waiting.waiting.id);
  EXPECT_EQ(Again(*two, waiting).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, AResetWakesThoseWhoWait) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  Acquire(*limit);
  const Answer waiting = Wait(*limit);
  Request request;
  request.mode = engine::Mode::kReset;
  request.asks = {{limit.get()}};
  EXPECT_EQ(client_.Ask(request).result.state, GroupState::kDecided);
  EXPECT_EQ(InUse(*limit), 0);
  client_.RunUntilWoken(waiting.waiting.id);
  EXPECT_EQ(Again(*limit, waiting).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, TheQueueOfWhoeverGoesAwayMakesWay) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer held = Acquire(*limit);
  {
    Client leaving(*engine_);
    EXPECT_TRUE(leaving.Ask(Permit(*limit, 1, Seconds(2))).result.queued);
    EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  }
  const Answer waiting = Acquire(*limit, 1, kMinute);
  if (waiting.outcome() == Outcome::kAllowed) return;  // nobody is before him any more
  // Where nobody knows that he went, his place is his until his time is over.
  Advance(Seconds(2));
  EXPECT_EQ(Again(*limit, waiting).outcome(), Outcome::kAllowed);
}

TEST_P(PermitQueue, ARequestIdIsKeptFromTheGrantOn) {
  const auto limit = Registered("n", Semaphore(1, kLease));
  const Answer held = Acquire(*limit);
  Request request = Permit(*limit, 1, kMinute);
  request.request_id = "id-1";
  EXPECT_TRUE(client_.Ask(request).result.queued);
  EXPECT_TRUE(client_.Ask(request).result.queued);
  EXPECT_EQ(Waiting(*limit), 1);
  EXPECT_EQ(client_.Release(held.permit), PermitFate::kReleased);
  const Answer granted = client_.Ask(request);
  EXPECT_EQ(granted.outcome(), Outcome::kAllowed);
  EXPECT_FALSE(granted.result.replayed);
  const Answer again = client_.Ask(request);
  EXPECT_TRUE(again.result.replayed);
  EXPECT_EQ(again.permit, granted.permit);
}

}  // namespace
}  // namespace penstock::conformance
