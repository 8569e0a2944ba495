// Strict limits of permits: an engine that has just been started, or whose store is empty, may have lost what it granted,
// and grants nothing for one lease.
#include "core/permits.h"
#include "permit_fixture.h"

namespace penstock::conformance {
namespace {

using core::PermitFate;

class Strict : public PermitsTest {
 protected:
  std::unique_ptr<core::Limit> Strictly(std::string name, const core::RateSpec& spec) {
    std::unique_ptr<core::Limit> limit = MakeLimit(std::move(name), spec);
    limit->strict = true;
    client_.Register({limit.get()});
    return limit;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Strict, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Strict, NothingIsGrantedForALeaseAfterTheStartAndTheWaitIsStated) {
  const auto limit = Strictly("n", Semaphore(2, kLease));
  Answer answer = Acquire(*limit);
  EXPECT_EQ(answer.outcome(), Outcome::kDenied);
  EXPECT_EQ(answer[0].retry_after, kLease);
  EXPECT_EQ(answer[0].remaining, 2);
  EXPECT_EQ(answer.permit.size, 0);
  EXPECT_EQ(Acquire(*limit, 3).outcome(), Outcome::kNever);
  Advance(kLease - Millis(5));
  answer = Acquire(*limit);
  EXPECT_EQ(answer.outcome(), Outcome::kDenied);
  EXPECT_EQ(answer[0].retry_after, Millis(5));
  Advance(Millis(5) - Micros{1});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  Advance({1});
  answer = Acquire(*limit);
  EXPECT_EQ(answer.outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
  EXPECT_EQ(Acquire(*limit)[0].retry_after, kLease);
  EXPECT_EQ(client_.Renew(answer.permit), PermitFate::kRenewed);
  EXPECT_EQ(client_.Release(answer.permit), PermitFate::kReleased);
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kAllowed);
}

TEST_P(Strict, ALimitThatIsNotStrictIsNotHeldBack) {
  const auto limit = Strictly("n", Semaphore(2, kLease));
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  const auto other = Registered("m", Semaphore(2, kLease));
  EXPECT_EQ(Acquire(*other).outcome(), Outcome::kAllowed);
}

TEST_P(Strict, WhoWaitsStandsInItsQueueAlthoughNobodyHolds) {
  const auto limit = Strictly("n", Semaphore(1, kLease));
  const Request first = Permit(*limit, 1, kLease * 2);
  const Request second = Permit(*limit, 1, kLease * 2);
  Answer answer = client_.Ask(first);
  EXPECT_TRUE(answer.result.queued);
  EXPECT_EQ(answer.outcome(), Outcome::kDenied);
  EXPECT_TRUE(client_.Ask(second).result.queued);
  EXPECT_EQ(Waiting(*limit), 2);
  for (Micros passed{}; passed < kLease;
       passed = passed + Seconds(1)) {  // a node's word lives for three seconds
    answer = client_.Ask(first);
    EXPECT_TRUE(answer.result.queued);
    EXPECT_EQ(answer[0].retry_after, kLease - passed);
    Advance(Seconds(1));
  }
  EXPECT_TRUE(client_.Ask(second).result.queued) << "the first has not asked yet";
  EXPECT_EQ(client_.Ask(first).outcome(), Outcome::kAllowed);
  EXPECT_EQ(client_.Ask(second).outcome(), Outcome::kDenied);
  EXPECT_EQ(Waiting(*limit), 1);
}

TEST_P(Strict, ARefusalSpendsNothingOfARateBesideIt) {
  const auto limit = Strictly("n", Semaphore(1, kLease));
  const auto rate = Registered("r", Fixed(1, kHour));
  Request request = Permit(*limit);
  request.asks.push_back({rate.get()});
  EXPECT_EQ(client_.Ask(request).outcome(), Outcome::kDenied);
  Advance(kLease);
  EXPECT_EQ(client_.Ask(request).outcome(), Outcome::kAllowed);
}

TEST_P(Strict, ARepeatIsToldTheSameThoughAShadowWasHeldBack) {
  const auto limit = Strictly("n", Semaphore(3, kLease));
  const auto shadow = MakeLimit("s", Semaphore(3, kLease * 2));
  shadow->strict = shadow->shadow = true;
  shadow->shard_part = limit->shard_part;
  client_.Register({shadow.get()});
  EXPECT_EQ(Acquire(*limit).outcome(), Outcome::kDenied);
  EXPECT_EQ(Acquire(*shadow)[0].outcome, Outcome::kDenied);
  Advance(kLease);
  Request request = Permit(*limit);
  request.asks.push_back({shadow.get()});
  request.request_id = "repeated";
  const Answer first = client_.Ask(request);
  EXPECT_EQ(first[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(first[1].outcome, Outcome::kDenied);
  EXPECT_EQ(first[1].retry_after, kLease);
  const Answer again = client_.Ask(request);
  EXPECT_TRUE(again.result.replayed);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again[i].outcome, first[i].outcome) << i;
    EXPECT_EQ(again[i].retry_after, first[i].retry_after) << i;
    EXPECT_EQ(again[i].remaining, first[i].remaining) << i;
  }
}

}  // namespace
}  // namespace penstock::conformance
