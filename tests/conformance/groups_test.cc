// Several limits in one request: all or nothing, shadows, shares.
#include "harness.h"

namespace penstock::conformance {
namespace {

class Groups : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Engines, Groups, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Groups, ARefusalByOneLeavesTheOthers) {
  const auto group = Registered("group", Bucket(10, kMinute));
  const auto route = Registered("route", Fixed(3, kMinute));
  Request request;
  request.asks = {{group.get()}, {route.get()}};
  for (int i = 0; i < 5; ++i) {
    const Answer answer = client_.Ask(request);
    EXPECT_EQ(answer.outcome(), i < 3 ? Outcome::kAllowed : Outcome::kDenied);
    EXPECT_EQ(answer[0].remaining, i < 3 ? 9 - i : 7);
    EXPECT_EQ(answer[0].taken, i < 3 ? 1 : 0);
  }
  EXPECT_EQ(client_.Check(*group, 0).remaining, 7);
  EXPECT_EQ(client_.Check(*route, 0).remaining, 0);
}

TEST_P(Groups, EveryAlgorithmTogetherAllOrNothing) {
  const auto bucket = Registered("bucket", Bucket(10, kHour));
  const auto fixed = Registered("fixed", Fixed(10, kHour));
  const auto sliding = Registered("sliding", Sliding(10, kHour));
  const auto log = Registered("log", Log(4, kHour));
  Request request;
  request.asks = {{bucket.get()}, {fixed.get(), "other"}, {sliding.get()}, {log.get()}};
  for (int i = 0; i < 10; ++i) client_.Ask(request);
  EXPECT_EQ(client_.Check(*bucket, 0).remaining, 6);
  EXPECT_EQ(client_.Check(*fixed, 0, "other").remaining, 6);
  EXPECT_EQ(client_.Check(*sliding, 0).remaining, 6);
  EXPECT_EQ(client_.Check(*log, 0).remaining, 0);
}

TEST_P(Groups, ManyLimitsOfOneRequest) {
  std::vector<std::unique_ptr<core::Limit>> limits;
  Request request;
  for (int i = 0; i < 32; ++i) {
    limits.push_back(Registered("limit" + std::to_string(i), Bucket(i == 31 ? 2 : 5, kHour)));
    request.asks.push_back({limits.back().get()});
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(client_.Ask(request).outcome(), i < 2 ? Outcome::kAllowed : Outcome::kDenied);
  }
  for (int i = 0; i < 31; ++i) EXPECT_EQ(client_.Check(*limits[i], 0).remaining, 3);
}

TEST_P(Groups, CostsOfSeveralUnits) {
  const auto requests = Registered("rpm", Bucket(10, kMinute));
  const auto tokens = Registered("tpm", Bucket(1'000, kMinute));
  Request request;
  request.asks = {{requests.get(), "k", 1, 0}, {tokens.get(), "k", 500, 1}};
  EXPECT_EQ(client_.Ask(request).outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Ask(request).outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Ask(request).outcome(), Outcome::kDenied);
  EXPECT_EQ(client_.Check(*requests, 0).remaining, 8);
  EXPECT_EQ(client_.Check(*tokens, 0).remaining, 0);
}

TEST_P(Groups, ABudgetThatFewFit) {
  const auto tokens = Registered("budget", Bucket(100, kMinute));
  std::vector<Request> requests(5);
  const int64_t costs[] = {58, 80, 175, 175, 175};
  for (size_t i = 0; i < 5; ++i) requests[i].asks = {{tokens.get(), "k", costs[i]}};
  const std::vector<Answer> answers = client_.Ask(requests);
  EXPECT_EQ(answers[0].outcome(), Outcome::kAllowed);
  EXPECT_EQ(answers[1].outcome(), Outcome::kDenied);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(answers[i].outcome(), Outcome::kNever);
  EXPECT_EQ(client_.Check(*tokens, 0).remaining, 42);
}

TEST_P(Groups, AShadowIsChargedOnlyWithTheRequestAndNeverDecides) {
  auto shadow = MakeLimit("shadow", Bucket(2, kHour));
  shadow->shadow = true;
  client_.Register({shadow.get()});
  const auto enforced = Registered("enforced", Bucket(4, kHour));
  Request request;
  request.asks = {{shadow.get()}, {enforced.get()}};
  for (int i = 0; i < 6; ++i) {
    const Answer answer = client_.Ask(request);
    EXPECT_EQ(answer[1].outcome, i < 4 ? Outcome::kAllowed : Outcome::kDenied);
    EXPECT_EQ(answer[0].outcome, i < 2 ? Outcome::kAllowed : Outcome::kDenied);
    EXPECT_EQ(answer[0].taken, i < 2 ? 1 : 0);
  }
  // A request that is refused charges no shadow.
  Request refused;
  refused.asks = {{shadow.get(), "fresh"}, {enforced.get()}};
  client_.Ask(refused);
  EXPECT_EQ(client_.Check(*shadow, 0, "fresh").remaining, 2);
}

TEST_P(Groups, PartialTakesTheSmallestOfAUnit) {
  const auto wide = Registered("wide", Bucket(10, kHour));
  const auto narrow = Registered("narrow", Fixed(3, kHour));
  const auto other = Registered("other", Bucket(10, kHour));
  Request request;
  request.options.partial = true;
  request.asks = {{wide.get(), "k", 5, 0}, {narrow.get(), "k", 5, 0}, {other.get(), "k", 7, 1}};
  const Answer answer = client_.Ask(request);
  EXPECT_EQ(answer.outcome(), Outcome::kAllowed);
  EXPECT_EQ(answer[0].taken, 3);
  EXPECT_EQ(answer[1].taken, 3);
  EXPECT_EQ(answer[2].taken, 7);
}

TEST_P(Groups, RequestsOfOneBatchAreDecidedInOrder) {
  const auto limit = Registered("order", Bucket(100, kHour));
  std::vector<Request> requests(300);
  for (Request& request : requests) request.asks = {{limit.get()}};
  const std::vector<Answer> answers = client_.Ask(requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].outcome(), i < 100 ? Outcome::kAllowed : Outcome::kDenied);
    ASSERT_EQ(answers[i][0].remaining, i < 100 ? 99 - static_cast<int64_t>(i) : 0);
    ASSERT_EQ(answers[i].result.now, kStart);
  }
}

TEST_P(Groups, ARequestThatNoLimitMatchesIsDecided) {
  const Answer answer = client_.Ask(Request{});
  EXPECT_EQ(answer.result.state, engine::GroupState::kDecided);
  EXPECT_TRUE(answer.parts.empty());
}

}  // namespace
}  // namespace penstock::conformance
