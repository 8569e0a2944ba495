// A limit changes while its buckets are in use (rule E6): use stays used, late nodes are told, nobody is starved.
#include "harness.h"

namespace penstock::conformance {
namespace {

class Versions : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Engines, Versions, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Versions, EqualParametersKeepTheirVersionAndChangedOnesGetALargerOne) {
  const auto first = Registered("limit", Bucket(10, kHour));
  EXPECT_GT(first->version, 0);
  const auto same = Changed(*first, Bucket(10, kHour));
  EXPECT_EQ(same->version, first->version);
  const auto second = Changed(*first, Bucket(20, kHour));
  EXPECT_GT(second->version, first->version);
  const auto back = Changed(*first, Bucket(10, kHour));
  EXPECT_GT(back->version, second->version);
  EXPECT_GE(back->version, kStart.us);
}

TEST_P(Versions, ANewerBucketAnswersALateNodeStale) {
  const auto old = Registered("limit", Bucket(10, kHour));
  client_.Check(*old, 3);
  const auto changed = Changed(*old, Bucket(5, kHour));
  EXPECT_EQ(client_.Check(*changed, 6).outcome,
            Outcome::kNever);  // a refusal; it moves the bucket all the same
  Request late;
  late.asks = {{old.get(), "k", 1}};
  EXPECT_EQ(client_.Ask(late).result.state, engine::GroupState::kStale);
  EXPECT_EQ(client_.Check(*changed, 0).remaining, 2);
  EXPECT_EQ(client_.Check(*old, 1, "fresh").outcome, Outcome::kAllowed);  // a bucket not yet there
}

TEST_P(Versions, OneStaleLimitStopsTheWholeRequest) {
  const auto other = Registered("other", Bucket(10, kHour));
  const auto old = Registered("limit", Bucket(10, kHour));
  const auto changed = Changed(*old, Bucket(5, kHour));
  client_.Check(*changed);
  Request late;
  late.asks = {{other.get()}, {old.get()}};
  EXPECT_EQ(client_.Ask(late).result.state, engine::GroupState::kStale);
  EXPECT_EQ(client_.Check(*other, 0).remaining, 10);
}

TEST_P(Versions, ALoweredRateDrainsByTheOldOneUpToItsFirstDecision) {
  const auto old = Registered("limit", Bucket(100, kMinute, 100));
  client_.Check(*old, 100);
  const auto changed = Changed(*old, Bucket(1, kHour, 100));
  Advance(kMinute);
  const core::Verdict verdict = client_.Check(*changed);
  EXPECT_EQ(verdict.outcome, Outcome::kAllowed);
  EXPECT_EQ(verdict.remaining, 99);
}

TEST_P(Versions, ARaisedLimitShowsTheDifferenceAtOnce) {
  const auto ten = Registered("limit", Fixed(10, kHour));
  for (int i = 0; i < 50; ++i) client_.Check(*ten);
  const auto twenty = Changed(*ten, Fixed(20, kHour));
  int passed = 0;
  for (int i = 0; i < 50; ++i) passed += client_.Check(*twenty).outcome == Outcome::kAllowed;
  EXPECT_EQ(passed, 10);
  const auto many = Registered("many", Fixed(10'000, kHour));
  client_.Check(*many, 10'000);
  EXPECT_EQ(client_.Check(*Changed(*many, Fixed(15'000, kHour)), 0).remaining, 5'000);
}

TEST_P(Versions, ALoweredLimitHoldsAtOnceAndShowsNothingNegative) {
  for (const core::RateSpec& spec :
       {Bucket(100, kHour), Fixed(100, kHour), Sliding(100, kHour), Log(100, kHour)}) {
    const auto limit = Registered("l" + std::to_string(static_cast<int>(spec.algorithm)), spec);
    client_.Check(*limit, 60);
    core::RateSpec lower = spec;
    lower.count = 10;
    if (lower.burst) lower.burst = 10;
    const core::Verdict verdict = client_.Check(*Changed(*limit, lower));
    EXPECT_EQ(verdict.outcome, Outcome::kDenied);
    EXPECT_EQ(verdict.limit, 10);
    EXPECT_EQ(verdict.remaining, 0);
  }
}

TEST_P(Versions, AnOverrideAndItsBaseShareTheBucket) {
  auto base = MakeLimit("limit", Bucket(10, kHour));
  auto partner = MakeLimit("limit", Bucket(20, kHour));
  client_.Register({base.get(), partner.get()});
  EXPECT_EQ(base->version, partner->version);
  client_.Check(*base, 8);
  EXPECT_EQ(client_.Check(*partner, 0).remaining, 12);
  EXPECT_EQ(client_.Check(*partner, 4).remaining, 8);
  EXPECT_EQ(client_.Check(*base, 0).remaining, 0);
  // A change of the override alone is a change of the limit.
  auto base2 = MakeLimit("limit", Bucket(10, kHour));
  auto partner2 = MakeLimit("limit", Bucket(30, kHour));
  client_.Register({base2.get(), partner2.get()});
  EXPECT_GT(base2->version, base->version);
}

TEST_P(Versions, ASettleMeetsTheNewParameters) {
  const auto old = Registered("limit", Bucket(100, kHour));
  Request request;
  request.asks = {{old.get(), "k", 50}};
  request.request_id = "id";
  client_.Ask(request);
  const auto changed = Changed(*old, Bucket(80, kHour));
  request.mode = engine::Mode::kSettle;
  request.asks = {{changed.get(), "k", 20}};
  EXPECT_EQ(client_.Ask(request)[0].remaining, 60);
}

TEST_P(Versions, AnAdHocLimitIsDecidedByTheLastCallersParameters) {
  auto wide = MakeLimit("adhoc", Bucket(200, kMinute));
  auto narrow = MakeLimit("adhoc", Bucket(2, kMinute));
  client_.BindAdHoc(*wide);
  client_.BindAdHoc(*narrow);
  EXPECT_EQ(wide->version, 0);
  EXPECT_EQ(client_.Check(*wide).remaining, 199);
  EXPECT_EQ(client_.Check(*narrow).remaining, 0);
  EXPECT_EQ(client_.Check(*narrow).outcome, Outcome::kDenied);
  EXPECT_EQ(client_.Check(*wide).remaining, 197);
}

TEST_P(Versions, AlternatingAdHocCallersStarveNobody) {
  auto a = MakeLimit("alternate", Bucket(30, kMinute, 16));
  auto b = MakeLimit("alternate", Bucket(30, kMinute, 21));
  client_.BindAdHoc(*a);
  client_.BindAdHoc(*b);
  int passed = 0;
  for (int i = 0; i < 600; ++i) {
    passed += client_.Check(i % 2 == 0 ? *a : *b).outcome == Outcome::kAllowed;
    Advance(Seconds(1));
  }
  EXPECT_NEAR(passed, 315, 6);
}

}  // namespace
}  // namespace penstock::conformance
