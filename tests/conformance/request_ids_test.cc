// Request ids (rule E10): a repeat is answered again and charges nothing; a settle corrects what was taken.
#include "harness.h"

namespace penstock::conformance {
namespace {

class RequestIds : public ConformanceTest {
 protected:
  RequestIds() : limit_(Registered("limit", Bucket(10, kHour))) {}

  Request Named(int64_t cost, std::string_view id = "id-1") {
    Request request;
    request.asks = {{limit_.get(), "k", cost}};
    request.request_id = id;
    return request;
  }
  Request Settle(int64_t cost, std::string_view id = "id-1") {
    Request request = Named(cost, id);
    request.mode = engine::Mode::kSettle;
    return request;
  }
  int64_t remaining() { return client_.Check(*limit_, 0).remaining; }

  std::unique_ptr<core::Limit> limit_;
};
INSTANTIATE_TEST_SUITE_P(Engines, RequestIds, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(RequestIds, ARepeatGetsTheFirstAnswerAndIsNotCharged) {
  const Answer first = client_.Ask(Named(3));
  EXPECT_FALSE(first.result.replayed);
  EXPECT_TRUE(first.result.replayable);
  EXPECT_EQ(first[0].remaining, 7);
  client_.Check(*limit_, 4);
  const Answer again = client_.Ask(Named(3));
  EXPECT_TRUE(again.result.replayed);
  EXPECT_EQ(again.outcome(), Outcome::kAllowed);
  EXPECT_EQ(again[0].remaining, 7);
  EXPECT_EQ(again[0].taken, 3);
  EXPECT_EQ(remaining(), 3);
}

TEST_P(RequestIds, AnotherRequestUnderTheIdIsAConflict) {
  client_.Ask(Named(3));
  Request other = Named(4);
  other.fingerprint = 2;
  EXPECT_EQ(client_.Ask(other).result.state, engine::GroupState::kConflict);
  EXPECT_EQ(remaining(), 7);
}

TEST_P(RequestIds, IdsAreADomainsOwn) {
  client_.Ask(Named(3));
  Request other = Named(3);
  other.domain = "another";
  EXPECT_FALSE(client_.Ask(other).result.replayed);
  EXPECT_EQ(remaining(), 4);
}

TEST_P(RequestIds, ARefusalIsNotKept) {
  client_.Check(*limit_, 9);
  EXPECT_EQ(client_.Ask(Named(3)).outcome(), Outcome::kDenied);
  client_.Check(*limit_, -9);
  const Answer later = client_.Ask(Named(3));
  EXPECT_EQ(later.outcome(), Outcome::kAllowed);
  EXPECT_FALSE(later.result.replayed);
}

TEST_P(RequestIds, AnIdIsForgottenAfterItsTime) {
  client_.Ask(Named(3));
  Advance(Seconds(60) - Micros{1});
  EXPECT_TRUE(client_.Ask(Named(3)).result.replayed);
  Advance({1});
  EXPECT_FALSE(client_.Ask(Named(3)).result.replayed);
  Request longer = Named(1, "id-2");
  longer.keep_id = kHour;
  client_.Ask(longer);
  Advance(kHour - Micros{1});
  EXPECT_TRUE(client_.Ask(longer).result.replayed);
}

// Where one server sees the whole request. In several slots each knows of its own part alone, and a limit that was not
// there may be one that a lost request had not come to.
TEST_P(RequestIds, ALimitThatTookNoPartIsSkippedInTheRepeat) {
  const auto first = RegisteredBeside("first", Bucket(10, kHour));
  Request request = Named(3);
  request.asks[0].limit = first.get();
  client_.Ask(request);
  const auto added = RegisteredBeside("added", Bucket(10, kHour));
  request.asks.push_back({added.get()});
  const Answer again = client_.Ask(request);
  EXPECT_TRUE(again.result.replayed);
  EXPECT_FALSE(again.parts[0].skipped);
  EXPECT_TRUE(again.parts[1].skipped);
  EXPECT_EQ(client_.Check(*added, 0).remaining, 10);
}

TEST_P(RequestIds, ARepeatInTheSameBatchIsNotCharged) {
  const std::vector<Answer> answers = client_.Ask({Named(3), Named(3), Named(3, "id-2")});
  EXPECT_FALSE(answers[0].result.replayed);
  EXPECT_TRUE(answers[1].result.replayed);
  EXPECT_FALSE(answers[2].result.replayed);
  EXPECT_EQ(remaining(), 4);
}

TEST_P(RequestIds, SettleGivesBackOrChargesTheDifferenceOnce) {
  client_.Ask(Named(5));
  EXPECT_EQ(client_.Ask(Settle(2))[0].remaining, 8);
  EXPECT_EQ(client_.Ask(Settle(2))[0].remaining, 8);
  EXPECT_EQ(client_.Ask(Settle(6))[0].remaining, 4);
  EXPECT_EQ(client_.Ask(Settle(6))[0].remaining, 4);
  EXPECT_EQ(client_.Ask(Settle(0))[0].remaining, 10);
  // Above what is there: remembered.
  client_.Ask(Named(5, "id-2"));
  const Answer above = client_.Ask(Settle(12, "id-2"));
  EXPECT_EQ(above.result.state, engine::GroupState::kDecided);
  EXPECT_EQ(above[0].remaining, 0);
  EXPECT_EQ(client_.Check(*limit_, 0).outcome, Outcome::kDenied);
}

TEST_P(RequestIds, SettleOfAnUnknownOrExpiredIdChangesNothing) {
  EXPECT_EQ(client_.Ask(Settle(2, "nobody")).result.state, engine::GroupState::kUnknownId);
  client_.Ask(Named(5));
  Advance(Seconds(60));
  const int64_t before = remaining();
  EXPECT_EQ(client_.Ask(Settle(2)).result.state, engine::GroupState::kUnknownId);
  EXPECT_EQ(remaining(), before);
}

TEST_P(RequestIds, SettleOfBucketsThatTookNoPartIsUnknown) {
  client_.Ask(Named(5));
  Request request = Settle(2);
  request.asks[0].key = "another";
  EXPECT_EQ(client_.Ask(request).result.state, engine::GroupState::kUnknownId);
  EXPECT_EQ(remaining(), 5);
  EXPECT_EQ(client_.Check(*limit_, 0, "another").remaining, 10);
  EXPECT_EQ(client_.Ask(Settle(2))[0].remaining, 8);
}

TEST_P(RequestIds, SettleAfterAWindowsEdgeTouchesNoLaterWindow) {
  for (const core::RateSpec& spec :
       {Fixed(10, Seconds(30)), Fixed(10, Seconds(30), core::WindowKind::kFirstRequest)}) {
    const auto window = Registered("w" + std::to_string(static_cast<int>(spec.window)), spec);
    Request request;
    request.asks = {{window.get(), "k", 8}};
    const std::string id = "w" + std::to_string(static_cast<int>(spec.window));
    request.request_id = id;
    client_.Ask(request);
    Advance(Seconds(30));
    client_.Check(*window, 4);
    request.mode = engine::Mode::kSettle;
    request.asks[0].cost = 1;
    EXPECT_EQ(client_.Ask(request)[0].remaining, 6);
  }
}

TEST_P(RequestIds, AReservationOfNothingIsSettledToWhatWasUsed) {
  const auto requests = RegisteredBeside("rpm", Bucket(10, kHour));
  for (const core::RateSpec& spec :
       {Bucket(100, kHour), Fixed(100, kHour), Sliding(100, kHour), Log(100, kHour)}) {
    const std::string name = "tpm" + std::to_string(static_cast<int>(spec.algorithm));
    const auto tokens = RegisteredBeside(name, spec);
    Request request;
    request.asks = {{requests.get(), "k", 1, 0}, {tokens.get(), "k", 0, 1}};
    request.request_id = name;
    client_.Ask(request);
    request.mode = engine::Mode::kSettle;
    request.asks[1].cost = 40;
    EXPECT_EQ(client_.Ask(request)[1].remaining, 60) << name;
    request.asks[1].cost = 30;
    EXPECT_EQ(client_.Ask(request)[1].remaining, 70) << name;
  }
}

TEST_P(RequestIds, AShadowThatHadNoRoomIsNotSettled) {
  auto shadow = MakeLimit("shadow", Bucket(2, kHour));
  shadow->shadow = true;
  client_.Register({shadow.get()});
  client_.Check(*shadow, 2);
  Request request = Named(5);
  request.asks.push_back({shadow.get(), "k", 5});
  client_.Ask(request);
  request.mode = engine::Mode::kSettle;
  request.asks[0].cost = request.asks[1].cost = 1;
  EXPECT_EQ(client_.Ask(request)[0].remaining, 9);
  EXPECT_EQ(client_.Check(*shadow, -1).remaining, 1);  // still full before
}

}  // namespace
}  // namespace penstock::conformance
