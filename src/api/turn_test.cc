// What a connection asked for and does not wait for any more, because it closed.
#include "api/turn.h"

#include "api/testing/http_on_fakes.h"

namespace penstock::api {
namespace {

using TurnTest = HttpOnFakes;

constexpr char kPatient[] = R"({"domain":"a","max_wait_ms":60000})";

// C67, as far as it is ours: the service is told, and gives back what it grants meanwhile.
TEST_F(TurnTest, AClosedConnectionTakesItsChecksBackAndNobodyElses) {
  Connection other(session_options_);
  decider_.hold = true;
  Send(PostText("/v1/check", kPatient) + PostText("/v1/check", kPatient));
  Send(other, PostText("/v1/check", kPatient));
  EXPECT_TRUE(api_.Waits(connection_.peer));
  Close(connection_);
  EXPECT_EQ(decider_.cancelled, 2u);
  EXPECT_FALSE(api_.Waits(connection_.peer));
  EXPECT_TRUE(api_.Waits(other.peer));
  decider_.Release();
  EXPECT_EQ(TakeOutput(), "");
  EXPECT_TRUE(Has(TakeOutput(other), "200 OK"));
}

TEST_F(TurnTest, AConnectionThatOwesNothingClosesWithoutAWord) {
  Post("/v1/check", kPatient);
  Close(connection_);
  EXPECT_EQ(decider_.cancelled, 0u);
}

TEST_F(TurnTest, AReleaseOfAClosedConnectionIsDoneAndAnsweredToNobody) {
  decider_.permits().hold = true;
  Send(PostText("/v1/release", R"({"id":"p"})"));
  Close(connection_);
  connection_.session.Open();  // the next connection on the same session
  decider_.hold = true;
  Send(PostText("/v1/check", kPatient));
  decider_.permits().Answer();
  EXPECT_EQ(TakeOutput(), "");
  EXPECT_TRUE(api_.Waits(connection_.peer));
}

// The first item has its permit while the second waits: nobody hears of either.
TEST_F(TurnTest, PermitsOfAnArrayThatIsNeverAnsweredAreGivenBack) {
  decider_.hold = true;
  decider_.answer = [](const FakeDecider::Asked& asked) {
    return FakeDecider::Granted("p-" + asked.domain + asked.request_id);
  };
  Send(PostText("/v1/check", R"([{"domain":"a"},{"domain":"b","request_id":"r"},{"domain":"c"}])"));
  decider_.ReleaseFirst(2);
  EXPECT_TRUE(decider_.permits().asked.empty());
  Close(connection_);
  EXPECT_EQ(decider_.cancelled, 1u);
  // The one with a request id can be asked for again.
  ASSERT_EQ(decider_.permits().asked.size(), 1u);
  EXPECT_EQ(decider_.permits().asked[0].verb, "release");
  EXPECT_EQ(decider_.permits().asked[0].id, "p-a");
}

// It was answered, but its answer is kept behind one that is owed.
TEST_F(TurnTest, AGrantWhoseAnswerNeverLeftIsGivenBack) {
  decider_.waits = [](const FakeDecider::Asked& asked) { return asked.domain == "waits"; };
  decider_.answer = [](const FakeDecider::Asked& asked) { return FakeDecider::Granted("p-" + asked.domain); };
  const std::string out = Send(PostText("/v1/check", R"({"domain":"heard"})") +
                               PostText("/v1/check", R"({"domain":"waits","max_wait_ms":60000})") +
                               PostText("/v1/check", R"({"domain":"held"})") +
                               PostText("/v1/check", R"({"domain":"again","request_id":"r"})"));
  EXPECT_TRUE(Has(out, "p-heard"));
  EXPECT_FALSE(Has(out, "p-held"));
  Close(connection_);
  EXPECT_EQ(decider_.cancelled, 1u);
  ASSERT_EQ(decider_.permits().asked.size(), 1u);
  EXPECT_EQ(decider_.permits().asked[0].id, "p-held");
}

TEST_F(TurnTest, AGrantWhoseRequestIdWasNotKeptCannotBeAskedForAgain) {
  decider_.waits = [](const FakeDecider::Asked& asked) { return asked.domain == "waits"; };
  decider_.answer = [](const FakeDecider::Asked&) {
    Decision decision = FakeDecider::Granted("p");
    decision.replayable = false;
    return decision;
  };
  Send(PostText("/v1/check", R"({"domain":"waits","max_wait_ms":60000})") +
       PostText("/v1/check", R"({"domain":"held","request_id":"r"})"));
  Close(connection_);
  ASSERT_EQ(decider_.permits().asked.size(), 1u);
  EXPECT_EQ(decider_.permits().asked[0].id, "p");
}

TEST_F(TurnTest, AGrantWhoseAnswerLeftLaterIsItsOwners) {
  decider_.waits = [](const FakeDecider::Asked& asked) { return asked.domain == "waits"; };
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  EXPECT_EQ(Send(PostText("/v1/check", R"({"domain":"waits"})") + PostText("/v1/check", R"({"domain":"a"})")),
            "");
  decider_.Release();
  EXPECT_TRUE(Has(TakeOutput(), "permit-1"));
  Close(connection_);
  EXPECT_TRUE(decider_.permits().asked.empty());
}

TEST_F(TurnTest, AGrantThatIsWrittenToNobodyIsGivenBack) {
  decider_.hold = true;
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  Post("/v1/check", kPatient);
  connection_.session.Detach();
  decider_.Release();
  ASSERT_EQ(decider_.permits().asked.size(), 1u);
  EXPECT_EQ(decider_.permits().asked[0].id, "permit-1");
  EXPECT_EQ(decider_.permits().flushes, 1);
}

// A release may end the wait of another connection, inside the same call.
TEST_F(TurnTest, AnAnswerToAnotherConnectionWakesItEvenInsideAFlush) {
  Connection waiting(session_options_);
  decider_.hold = true;
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  Send(waiting, PostText("/v1/check", kPatient));
  decider_.permits().on_flush = [&] { decider_.Release(); };
  EXPECT_TRUE(Has(Post("/v1/release", R"({"id":"p"})"), "released"));
  EXPECT_EQ(connection_.peer.woken, 0);
  EXPECT_EQ(waiting.peer.woken, 1);
  EXPECT_TRUE(Has(TakeOutput(waiting), "permit-1"));
}

TEST_F(TurnTest, TheWaitForAPermitIsNotCountedAsLatency) {
  decider_.hold = true;
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };  // waited 1.5 s
  Post("/v1/check", kPatient);
  clock_.Advance(Micros{1'500'999 + 40});
  decider_.Release();
  LatencySums sums;
  api_.latency().AddTo(sums);
  EXPECT_EQ(sums.count, 1u);
  EXPECT_EQ(sums.total_us, 40u);
}

}  // namespace
}  // namespace penstock::api
