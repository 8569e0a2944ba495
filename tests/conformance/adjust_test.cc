// Changing an earlier charge (rule E4): what comes back by an undo, and what a report adds.
#include "harness.h"

namespace penstock::conformance {
namespace {

class Adjust : public ConformanceTest {
 protected:
  core::Charge Charged(const core::Limit& limit, int64_t cost, std::string_view id) {
    Request request;
    request.asks = {{&limit, "k", cost}};
    request.request_id = id;  // so that every engine tells the charge
    const Answer answer = client_.Ask(request);
    EXPECT_EQ(answer.outcome(), Outcome::kAllowed);
    return answer.parts[0].charge;
  }
  Answer Change(const core::Limit& limit, const core::Charge& charge, int64_t by) {
    Request request;
    request.mode = engine::Mode::kAdjust;
    request.asks = {{&limit, "k", by}};
    request.asks[0].charge = charge;
    return client_.Ask(request);
  }
  Answer Undo(const core::Limit& limit, const core::Charge& charge) {
    return Change(limit, charge, -charge.cost);
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Adjust, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Adjust, OfAChargeComesBackWhatHasNotDrainedSince) {
  const auto limit = Registered("limit", Bucket(1, Seconds(1), 20));
  const core::Charge five = Charged(*limit, 5, "a");
  Advance(Seconds(3));
  client_.Check(*limit, 4);
  const Answer answer = Undo(*limit, five);
  EXPECT_EQ(answer.result.state, engine::GroupState::kDecided);
  EXPECT_EQ(answer[0].remaining, 16);  // a debt of 4
  EXPECT_EQ(answer[0].reset_after, Seconds(4));
  EXPECT_EQ(answer.parts[0].charge.cost, 0);
}

TEST_P(Adjust, TheDebtBeforeAChargeDrainsFirst) {
  const auto limit = Registered("limit", Bucket(1, Seconds(1), 20));
  client_.Check(*limit, 10);
  const core::Charge five = Charged(*limit, 5, "a");
  Advance(Seconds(3));
  EXPECT_EQ(Undo(*limit, five)[0].reset_after, Seconds(7));
}

TEST_P(Adjust, AWindowGivesBackOnlyWithinItself) {
  for (const core::RateSpec& spec :
       {Fixed(10, kMinute), Fixed(10, kMinute, core::WindowKind::kFirstRequest)}) {
    const std::string name = "w" + std::to_string(static_cast<int>(spec.window));
    const auto limit = Registered(name, spec);
    const core::Charge first = Charged(*limit, 5, name);
    client_.Check(*limit, 2);
    EXPECT_EQ(Undo(*limit, first)[0].remaining, 8);
    const core::Charge second = Charged(*limit, 5, name + "b");
    Advance(kMinute);
    client_.Check(*limit, 4);
    EXPECT_EQ(Undo(*limit, second)[0].remaining, 6);
  }
}

TEST_P(Adjust, ASlidingWindowGivesBackInTheWindowOfTheCharge) {
  const auto limit = Registered("limit", Sliding(10, kMinute));
  const core::Charge charge = Charged(*limit, 8, "a");
  Advance(kMinute);
  client_.Check(*limit, 1);
  EXPECT_EQ(Undo(*limit, charge)[0].remaining, 9);
}

TEST_P(Adjust, ALogGivesBackTheRunOfTheCharge) {
  const auto limit = Registered("limit", Log(10, kMinute));
  const core::Charge charge = Charged(*limit, 3, "a");
  Advance(Seconds(1));
  client_.Check(*limit, 2);
  const core::Verdict verdict = Undo(*limit, charge)[0];
  EXPECT_EQ(verdict.remaining, 8);
  EXPECT_EQ(verdict.reset_after, kMinute);
  EXPECT_EQ(Undo(*limit, charge)[0].remaining, 8);  // nothing is left of it
}

TEST_P(Adjust, AReportChargesByForceInItsWindowOrNowhere) {
  const auto limit = Registered("limit", Fixed(10, kMinute));
  const core::Charge used{.at = engine_->now(), .window = kStart + kMinute, .version = limit->version};
  EXPECT_EQ(Change(*limit, used, 14)[0].remaining, 0);
  EXPECT_EQ(client_.Check(*limit, 0).outcome, Outcome::kDenied);
  Advance(kMinute);
  EXPECT_EQ(Change(*limit, used, 3)[0].remaining, 10);
}

TEST_P(Adjust, UnderOldParametersItIsStaleAndChangesNothing) {
  const auto old = Registered("limit", Bucket(10, kHour));
  const core::Charge charge = Charged(*old, 5, "a");
  const auto newer = Changed(*old, Bucket(20, kHour));
  EXPECT_EQ(client_.Check(*newer, 0).remaining, 15);
  EXPECT_EQ(Change(*old, charge, 3).result.state, engine::GroupState::kStale);
  EXPECT_EQ(Undo(*newer, charge)[0].remaining, 15);  // the charge was made under an older version: dropped
}

}  // namespace
}  // namespace penstock::conformance
