// Waiting for a permit, through the decider: who is asked again when, what ends a wait, and what is left behind.
#include <limits>
#include <string>
#include <utility>

#include "engine/permit_id.h"
#include "service/decider_fixture.h"

namespace penstock::service {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class WaitingTest : public DeciderTest {
 protected:
  WaitingTest() {
    options_.timer = &timer_;
    options_.timeout = Millis(20);
  }
  ~WaitingTest() override { decider_.reset(); }  // it uses the timer
  static Request Patient(int64_t wait_ms = 10'000, int64_t cost = 1) {
    Request request = Ask(kUser42, cost);
    request.options.max_wait = milliseconds(wait_ms);
    return request;
  }
  void Pass(Micros by) {
    clock_.Advance(by);
    session_.now = session_.now + by;
  }
  void Fire(Micros after = {}) {
    Pass(after);
    timer_.FireAll();
    executor_.RunAll();
  }
  void Release(uint64_t token) {
    decider().permits().Release(answers_[token].permit->id.view(), silent_, 1);
    decider().permits().Flush();
  }
  // The engine tells whoever stands first that he may pass now.
  void Wake() {
    session_.WakeHeads();
    executor_.RunAll();
  }
  TotalCounts Totals() { return metrics_.Totals(); }

  ManualTimer timer_;
  Silent silent_;
};

TEST_F(WaitingTest, TheWokenAreServedInTheirOrderAndToldHowLongTheyWaited) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  const uint64_t first = Check(Patient());
  const uint64_t second = Check(Patient());
  EXPECT_FALSE(answers_.has(first));
  EXPECT_EQ(session_.queued(), 2u);
  EXPECT_EQ(Totals().permits_waiting, 2u);
  Pass(Millis(300));
  Release(holder);
  const size_t asks = session_.asks.size();
  Wake();
  EXPECT_EQ(session_.asks.size(), asks + 1) << "only the woken is asked again";
  ASSERT_TRUE(answers_[first].permit.has_value());
  EXPECT_EQ(answers_[first].permit->waited, milliseconds(300));
  EXPECT_FALSE(answers_.has(second));
  Release(first);
  Wake();
  EXPECT_TRUE(answers_[second].permit.has_value());
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(Totals().permits_waiting, 0u);
  EXPECT_EQ(Totals().permits_granted, 3u);
  EXPECT_EQ(Totals().requests, 3u) << "asking again is no request";
  EXPECT_EQ(Counts("in-flight").outcomes[static_cast<size_t>(Outcome::kDenied)], 0u);
}

TEST_F(WaitingTest, TheSamePermitIsAskedForAgainWithWhatIsLeftOfTheWait) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  Check(Patient(10'000));
  EXPECT_EQ(session_.asks.back().queue_for, Seconds(10));
  const Hash128 id = session_.asks.back().id;
  Fire(Seconds(2));
  EXPECT_EQ(session_.asks.back().id, id);
  EXPECT_EQ(session_.asks.back().queue_for, Seconds(8));
  EXPECT_EQ(session_.seen.back().options.max_wait, Seconds(8)) << "for the rates too";
  EXPECT_EQ(session_.deadlines.back(), clock_.Steady() + Millis(20)) << "each asking has its own deadline";
  EXPECT_EQ(Totals().asked_again, 1u);
}

TEST_F(WaitingTest, AtTheEndOfItsWaitARequestIsDeniedAndLeavesTheQueue) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  const uint64_t waiter = Check(Patient(1'500));
  EXPECT_EQ(session_.queued(), 1u);
  Fire(Millis(1'500));
  EXPECT_EQ(answers_[waiter].outcome, Outcome::kDenied);
  EXPECT_EQ(answers_[waiter].retry_after, milliseconds(28'500));
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(Counts("in-flight").outcomes[static_cast<size_t>(Outcome::kDenied)], 1u) << "counted once";
}

TEST_F(WaitingTest, C66WithoutAWakeUpTheClockAsks) {
  Publish({MakePermits("in-flight", {"user"}, 1, Seconds(1))});
  session_.ask_again_after = Seconds(1);
  Check(Patient());
  const uint64_t waiter = Check(Patient());
  Fire(Seconds(1));  // the holder crashed
  EXPECT_TRUE(answers_[waiter].permit.has_value()) << "C60";
}

TEST_F(WaitingTest, OnlyTheFirstOfABucketAsksAsOftenAsTheEngineSays) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  session_.ask_again_after = Millis(5);
  Check(Patient());
  Check(Patient());
  Check(Patient());
  ASSERT_EQ(timer_.instants().size(), 2u);
  EXPECT_EQ(timer_.instants()[0], clock_.Steady() + Millis(5));
  EXPECT_GE(timer_.instants()[1], clock_.Steady() + WaitingRoom::kPoll - Millis(125));
  EXPECT_LE(timer_.instants()[1], clock_.Steady() + WaitingRoom::kPoll);
}

// He may have become the head of the queue since one who asked on another loop has gone.
TEST_F(WaitingTest, C66TheFirstHereAsksEverySecondThoughOthersStandBeforeHim) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  session_.ask_again_after = Seconds(10);
  Check(Patient());
  Check(Patient());
  ASSERT_EQ(timer_.instants().size(), 1u);
  EXPECT_EQ(timer_.instants()[0], clock_.Steady() + WaitingRoom::kPoll);
}

TEST_F(WaitingTest, C66TheNextFirstAsksWhenTheFirstWasTo) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  session_.ask_again_after = Millis(5);
  const uint64_t first = Check(Patient());
  session_.ask_again_after = Seconds(9);
  Check(Patient());
  decider().Cancel(answers_, first);
  ASSERT_EQ(timer_.instants().size(), 1u);
  EXPECT_EQ(timer_.instants()[0], clock_.Steady() + Millis(5));
}

TEST_F(WaitingTest, C69ARatesRefusalEndsTheWaitAndSpendsNothing) {
  Publish({MakeLimit("rpm", {"user"}, "2/min"), MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  const uint64_t waiter = Check(Patient(2'000));
  Request taker = Ask(kUser42);
  taker.without_permits = true;
  EXPECT_TRUE(answers_[Check(taker)].allowed);
  Release(holder);
  Wake();
  EXPECT_EQ(answers_[waiter].outcome, Outcome::kDenied);
  EXPECT_FALSE(answers_[waiter].permit.has_value());
  EXPECT_EQ(session_.in_use(), 0);
  EXPECT_EQ(session_.queued(), 0u);
}

TEST_F(WaitingTest, C67WhoGoesWhileHeWaitsLeavesTheQueueToTheOthers) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  const uint64_t gone = Check(Patient());
  const uint64_t stays = Check(Patient());
  decider().Cancel(answers_, gone);
  executor_.RunAll();
  EXPECT_EQ(session_.queued(), 1u);
  Release(holder);
  Wake();
  EXPECT_FALSE(answers_.has(gone));
  EXPECT_TRUE(answers_[stays].permit.has_value());
  Check(Patient());
  decider().Detach(answers_);
  executor_.RunAll();
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(Totals().permits_waiting, 0u);
}

TEST_F(WaitingTest, C67AGrantThatCrossesHisGoingIsHandedBack) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  const uint64_t gone = Check(Patient());
  session_.later = true;
  Release(holder);
  Wake();
  ASSERT_EQ(session_.waiting(), 1u);
  decider().Cancel(answers_, gone);
  session_.AnswerAll();
  EXPECT_EQ(session_.in_use(), 1);
  executor_.RunAll();
  EXPECT_EQ(session_.in_use(), 0);
  EXPECT_FALSE(answers_.has(gone));
  EXPECT_EQ(Totals().permits_handed_back, 1u);
}

TEST_F(WaitingTest, WhoHadGoneBeforeHeCouldQueueLeavesToo) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  session_.later = true;
  const uint64_t gone = Check(Patient());
  decider().Cancel(answers_, gone);
  session_.AnswerAll();
  executor_.RunAll();
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
}

// Two under one request id wait; the one who is granted the permit is the answer to both.
TEST_F(WaitingTest, WhoIsToldAnEarlierAnswerLeavesTheQueue) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  Request repeated = Patient();
  repeated.options.request_id = "r-1";
  const uint64_t waiter = Check(repeated);
  Release(holder);
  session_.calls.clear();
  session_.replay_after = Millis(1);
  Wake();
  EXPECT_TRUE(answers_[waiter].replayed);
  ASSERT_EQ(session_.calls.size(), 1u);
  EXPECT_EQ(session_.calls[0].verb, engine::PermitVerb::kLeave);
  EXPECT_EQ(session_.calls[0].permit.id, session_.asks.back().id);
}

TEST_F(WaitingTest, TheAnswersWayBackIsNoPartOfTheWait) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  const uint64_t waiter = Check(Patient());
  Pass(Millis(300));
  Release(holder);
  session_.later = true;
  Wake();
  Pass(Millis(15));
  session_.AnswerAll();
  EXPECT_EQ(answers_[waiter].permit->waited, milliseconds(300)) << "his lease runs since then";
}

TEST_F(WaitingTest, AnEngineLostMeanwhileIsAnsweredByOnFailure) {
  policy::LimitDefinition permits = MakePermits("in-flight", {"user"}, 1);
  permits.on_failure = core::OnFailure::kAllow;
  Publish({permits});
  Check(Patient());
  const uint64_t waiter = Check(Patient());
  session_.script = {{.state = engine::GroupState::kUnavailable, .reason = Reason::kEngineDown, .now = {}}};
  Fire(Seconds(2));
  EXPECT_EQ(answers_[waiter].outcome, Outcome::kUnavailable);
  EXPECT_TRUE(answers_[waiter].allowed);
  EXPECT_EQ(session_.queued(), 0u) << "as soon as the engine can be asked";
}

TEST_F(WaitingTest, C65MorePermitsServeThoseWhoWaitInTheirOrder) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  std::vector<uint64_t> waiters;
  for (int i = 0; i < 4; ++i) waiters.push_back(Check(Patient()));
  Publish({MakePermits("in-flight", {"user"}, 4)});
  executor_.RunAll();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(answers_[waiters[i]].permit.has_value()) << i;
  EXPECT_FALSE(answers_.has(waiters[3]));
}

TEST_F(WaitingTest, AStaleAnswerWhileHeWaitsIsRepeatedUnderTheNewerPolicy) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  const uint64_t stays = Check(Patient());
  const uint64_t goes = Check(Patient());
  const engine::GroupResult stale = {.state = engine::GroupState::kStale, .now = session_.now};
  session_.script = {stale, stale};
  Fire(Seconds(2));
  EXPECT_FALSE(answers_.has(stays));
  decider().Cancel(answers_, goes);
  Publish({MakePermits("in-flight", {"user"}, 3)});
  executor_.RunAll();
  EXPECT_TRUE(answers_[stays].permit.has_value());
  EXPECT_FALSE(answers_.has(goes));
  EXPECT_EQ(session_.in_use(), 2) << "what was granted to him who had gone is given back";
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(WaitingTest, WhoeverIsQueuedByAStandInLeavesTheEnginesQueueAndBack) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  const uint64_t holder = Check(Patient());
  const uint64_t waiter = Check(Patient());
  session_.degraded = true;  // the node decides by itself, and queues him there
  Fire(Seconds(2));
  EXPECT_FALSE(answers_.has(waiter));
  ASSERT_FALSE(session_.calls.empty());
  EXPECT_EQ(session_.calls.back().verb, engine::PermitVerb::kLeave) << "the engine's queue";
  EXPECT_FALSE(session_.calls.back().permit.local);
  session_.degraded = false;
  Fire(Seconds(2));
  EXPECT_EQ(session_.calls.back().verb, engine::PermitVerb::kLeave);
  EXPECT_TRUE(session_.calls.back().permit.local) << "the stand-in's";
  Release(holder);
}

TEST_F(WaitingTest, ALimitThatHasGoneLetsThroughAndItsQueueIsLeft) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  const uint64_t waiter = Check(Patient());
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  executor_.RunAll();
  EXPECT_TRUE(answers_[waiter].allowed);
  EXPECT_FALSE(answers_[waiter].permit.has_value());
  EXPECT_EQ(session_.queued(), 0u);
}

TEST_F(WaitingTest, AtTheEndAllWhoWaitAreAnsweredAndNobodyQueuesAnyMore) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  const uint64_t one = Check(Patient());
  const uint64_t two = Check(Patient());
  decider().Close();
  executor_.RunAll();
  for (const uint64_t token : {one, two}) {
    EXPECT_EQ(answers_[token].outcome, Outcome::kUnavailable);
    EXPECT_EQ(answers_[token].reason, Reason::kShuttingDown);
  }
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(answers_[Check(Patient())].outcome, Outcome::kDenied);
}

TEST_F(WaitingTest, AtTheEndWhoIsJustAskingDoesNotGoOnWaiting) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  const uint64_t waiter = Check(Patient());
  session_.later = true;
  Fire(Seconds(2));
  ASSERT_EQ(session_.waiting(), 1u);
  decider().Close();
  session_.AnswerAll();
  executor_.RunAll();
  EXPECT_EQ(answers_[waiter].outcome, Outcome::kDenied);
  EXPECT_EQ(session_.queued(), 0u);
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(WaitingTest, ADrainingNodeAsksForAllWhoWaitOneLastTime) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  const uint64_t one = Check(Patient());
  session_.later = true;
  const uint64_t two = Check(Patient());  // on his way to the queue
  decider().Drain();
  session_.later = false;
  session_.AnswerAll();
  executor_.RunAll();
  for (const uint64_t token : {one, two}) EXPECT_EQ(answers_[token].outcome, Outcome::kDenied);
  EXPECT_EQ(session_.queued() + timer_.size(), 0u);
}

TEST_F(WaitingTest, BeyondTheBoundARequestIsDeniedAtOnce) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  decider();
  Request request = Patient();
  constexpr size_t kUsers = 128;  // short queues: the fake engine walks them
  for (size_t i = 0; i < kUsers + WaitingRoom::kMaxWaiting; ++i) {
    const std::string user = std::to_string(i % kUsers);
    const Attribute attribute{"user", user};
    request.attributes = std::span(&attribute, 1);
    decider_->Submit(request, answers_, 1'000'000 + i);
  }
  decider_->Flush();
  EXPECT_EQ(Totals().permits_waiting, WaitingRoom::kMaxWaiting);
  const Attribute attribute{"user", "0"};
  request.attributes = std::span(&attribute, 1);
  const uint64_t last = Check(request);
  EXPECT_EQ(answers_[last].outcome, Outcome::kDenied);
  EXPECT_EQ(Totals().waits_refused, 1u);
  executor_.RunAll();
  EXPECT_EQ(session_.queued(), WaitingRoom::kMaxWaiting) << "nor does it stand in the engine's queue";
}

TEST_F(WaitingTest, NothingElseOfTheBatchWaitsWithIt) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakePermits("in-flight", {"user"}, 1)});
  Check(Patient());
  Submit(Patient());
  Request other = Ask(kUser42);
  other.without_permits = true;
  Submit(other);
  const uint64_t token = next_token_ - 1;
  decider().Flush();
  EXPECT_TRUE(answers_[token].allowed);
  EXPECT_FALSE(answers_.has(token - 1));
}

// --- on the memory engine ---------------------------------------------------------------------------------------

}  // namespace
}  // namespace penstock::service
