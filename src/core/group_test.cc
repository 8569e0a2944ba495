#include "core/group.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/testing/bucket_book.h"

namespace penstock::core {
namespace {

using testing::TestLimit;

constexpr EngineTime kStart{1'785'000'000'000'000};

TestLimit PerMinute(int64_t count, bool shadow = false) {
  TestLimit limit({.count = count, .period = Seconds(60)});
  limit.limit.shadow = shadow;
  return limit;
}

struct Ask {
  TestLimit* limit;
  int64_t cost = 1;
  uint8_t unit = 0;
};

// Decides all together and writes.
std::vector<Verdict> Decide(const std::vector<Ask>& asks, const GroupOptions& options = {},
                            Outcome* outcome = nullptr) {
  std::vector<Operation> operations;
  for (const Ask& ask : asks) {
    operations.push_back(ask.limit->Ask(ask.cost));
    operations.back().unit = ask.unit;
  }
  EXPECT_EQ(DecideGroup(operations, options, kStart), GroupStatus::kDecided);
  if (outcome != nullptr) *outcome = GroupOutcome(operations);
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < asks.size(); ++i) {
    asks[i].limit->bucket.Apply(*operations[i].limit, operations[i].edit);
    verdicts.push_back(operations[i].verdict);
  }
  return verdicts;
}

TEST(Group, ARefusalByOneLimitLeavesTheOtherUntouched) {
  TestLimit group = PerMinute(10), route = PerMinute(3);
  for (int i = 0; i < 3; ++i) Decide({{&group}, {&route}});
  for (int i = 0; i < 2; ++i) {
    Outcome outcome{};
    const std::vector<Verdict> verdicts = Decide({{&group}, {&route}}, {}, &outcome);
    EXPECT_EQ(outcome, Outcome::kDenied);
    EXPECT_EQ(verdicts[0].outcome, Outcome::kAllowed);
    EXPECT_EQ(verdicts[0].taken, 0);
    EXPECT_EQ(verdicts[0].remaining, 7);
    EXPECT_EQ(verdicts[0].retry_after, Micros{});
    EXPECT_EQ(verdicts[1].outcome, Outcome::kDenied);
  }
  EXPECT_EQ(group.Decide(kStart, 0).remaining, 7);
}

TEST(Group, RequestsAndTokensAreChargedByUnitAndTogether) {
  TestLimit requests = PerMinute(2), tokens = PerMinute(1'200);
  Decide({{&requests, 1, 0}, {&tokens, 500, 1}});
  Decide({{&requests, 1, 0}, {&tokens, 500, 1}});
  EXPECT_EQ(tokens.Decide(kStart, 0).remaining, 200);
  Decide({{&requests, 1, 0}, {&tokens, 100, 1}});
  EXPECT_EQ(tokens.Decide(kStart, 0).remaining, 200);
  TestLimit wide = PerMinute(10);
  Decide({{&wide, 1, 0}, {&tokens, 201, 1}});
  EXPECT_EQ(wide.Decide(kStart, 0).remaining, 10);
}

TEST(Group, TwoLimitsOnOneKeyAreTwoBuckets) {
  TestLimit wide = PerMinute(200), narrow = PerMinute(2);
  for (int i = 0; i < 5; ++i) Decide({{&wide}, {&narrow}});
  EXPECT_EQ(wide.Decide(kStart, 0).remaining, 198);
  EXPECT_EQ(narrow.Decide(kStart, 0).remaining, 0);
}

TEST(Group, AnExhaustedShadowLimitDoesNotDecideAndIsNotCharged) {
  TestLimit shadow = PerMinute(1, true), enforced = PerMinute(3);
  Decide({{&shadow}, {&enforced}});
  Outcome outcome{};
  const std::vector<Verdict> verdicts = Decide({{&shadow}, {&enforced}}, {}, &outcome);
  EXPECT_EQ(outcome, Outcome::kAllowed);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kDenied);
  EXPECT_EQ(verdicts[0].taken, 0);
  EXPECT_EQ(verdicts[1].taken, 1);
  TestLimit open_shadow = PerMinute(5, true);
  Decide({{&open_shadow, 1}, {&enforced, 2}});  // refused: 1 is left
  EXPECT_EQ(open_shadow.Decide(kStart, 0).remaining, 5);
}

TEST(Group, AnOverrideIsNotCappedByTheDefault) {
  TestLimit limit({.count = 20, .period = Seconds(1)});  // the effective limit is the override's
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Decide({{&limit}})[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(Decide({{&limit}})[0].outcome, Outcome::kDenied);
}

TEST(Group, TheWorstEnforcedOutcomeIsTheGroups) {
  std::vector<Operation> operations(3);
  TestLimit enforced = PerMinute(1), shadow = PerMinute(1, true);
  for (Operation& operation : operations) {
    operation.limit = &enforced.limit;
    operation.verdict.outcome = Outcome::kAllowed;
  }
  EXPECT_EQ(GroupOutcome({}), Outcome::kAllowed);
  EXPECT_EQ(DecideGroup({}, {}, kStart), GroupStatus::kDecided);
  EXPECT_EQ(GroupOutcome(operations), Outcome::kAllowed);
  operations[2].verdict.outcome = Outcome::kUnavailable;
  EXPECT_EQ(GroupOutcome(operations), Outcome::kUnavailable);
  operations[1].verdict.outcome = Outcome::kDenied;
  EXPECT_EQ(GroupOutcome(operations), Outcome::kDenied);
  operations[0].verdict.outcome = Outcome::kNever;
  EXPECT_EQ(GroupOutcome(operations), Outcome::kNever);
  operations[0].limit = &shadow.limit;
  EXPECT_EQ(GroupOutcome(operations), Outcome::kDenied);
  operations[1].skipped = true;
  EXPECT_EQ(GroupOutcome(operations), Outcome::kUnavailable);
}

TEST(Group, PartialTakesTheSmallestOfItsUnitAndKeepsUnitsApart) {
  TestLimit three = PerMinute(3), five = PerMinute(5), other = PerMinute(100);
  const std::vector<Verdict> verdicts =
      Decide({{&three, 9, 0}, {&five, 9, 0}, {&other, 9, 1}}, {.partial = true});
  EXPECT_EQ(verdicts[0].taken, 3);
  EXPECT_EQ(verdicts[1].taken, 3);
  EXPECT_EQ(verdicts[1].remaining, 2);
  EXPECT_EQ(verdicts[2].taken, 9);
  Outcome outcome{};
  const std::vector<Verdict> refused =
      Decide({{&three, 9, 0}, {&five, 9, 0}, {&other, 9, 1}}, {.partial = true}, &outcome);
  EXPECT_EQ(outcome, Outcome::kDenied);
  EXPECT_EQ(refused[0].retry_after, Seconds(20));  // for one
  EXPECT_EQ(refused[1].outcome, Outcome::kAllowed);
  EXPECT_EQ(other.Decide(kStart, 0).remaining, 91);
}

TEST(Group, PartialIsNotCappedByShadowOrUnlimitedAndNeverOnlyByZero) {
  TestLimit shadow = PerMinute(2, true), wide = PerMinute(50);
  TestLimit unlimited({.kind = RateKind::kUnlimited}), zero({.kind = RateKind::kZero});
  const std::vector<Verdict> verdicts =
      Decide({{&shadow, 9}, {&unlimited, 9}, {&wide, 99}}, {.partial = true});
  EXPECT_EQ(verdicts[0].outcome, Outcome::kNever);  // it has no room for the 9 that are taken
  EXPECT_EQ(verdicts[1].taken, 9);
  EXPECT_EQ(verdicts[2].taken, 9);
  EXPECT_EQ(Decide({{&wide, 99}}, {.partial = true})[0].taken, 41);
  Outcome outcome{};
  Decide({{&wide, 9}, {&zero, 9}}, {.partial = true}, &outcome);
  EXPECT_EQ(outcome, Outcome::kNever);
}

TEST(Group, ForceChargesEveryLimitButCannotChargeZero) {
  TestLimit full = PerMinute(1), shadow = PerMinute(1, true), zero({.kind = RateKind::kZero});
  const std::vector<Verdict> verdicts = Decide({{&full, 5}, {&shadow, 5}}, {.force = true, .partial = true});
  EXPECT_EQ(verdicts[0].taken, 5);
  EXPECT_EQ(verdicts[1].taken, 5);
  EXPECT_EQ(full.Decide(kStart, 0).reset_after, Seconds(300));
  Decide({{&full, 5}, {&zero, 5}}, {.force = true});
  EXPECT_EQ(full.Decide(kStart, 0).reset_after, Seconds(300));
}

TEST(Group, AReservationAheadIsNotKeptWhenAnotherLimitRefuses) {
  TestLimit slow({.count = 1, .period = Seconds(1)}), full = PerMinute(1);
  slow.Decide(kStart, 1);
  full.Decide(kStart, 1);
  const std::vector<Verdict> verdicts = Decide({{&slow}, {&full}}, {.max_wait = Seconds(5)});
  EXPECT_EQ(verdicts[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(verdicts[0].wait, Micros{});
  EXPECT_EQ(slow.Decide(kStart, 0).reset_after, Seconds(1));
}

TEST(Group, ADryDecisionJudgesAndChargesNobody) {
  TestLimit group = PerMinute(10), route = PerMinute(3);
  Decide({{&group, 8}, {&route, 3}});
  const GroupOptions dry{.dry = true};
  std::vector<Verdict> verdicts = Decide({{&group, 2}, {&route}}, dry);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(verdicts[0].taken, 0);
  EXPECT_EQ(verdicts[0].remaining, 2);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kDenied);
  EXPECT_EQ(verdicts[1].retry_after, Seconds(20));
  verdicts = Decide({{&group, 2}}, dry);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(verdicts[0].remaining, 2);
  EXPECT_EQ(group.Decide(kStart, 0).remaining, 2);
}

TEST(Group, ABucketOfANewerVersionIsStaleBeforeAnythingElse) {
  TestLimit fine = PerMinute(5), late = PerMinute(5);
  late.limit.version = 7;
  late.Decide(kStart, 1);
  late.limit.version = 6;
  std::vector<Operation> operations{fine.Ask(1), late.Ask(1)};
  EXPECT_EQ(DecideGroup(operations, {}, kStart), GroupStatus::kStale);
  EXPECT_EQ(DecideGroup({&operations[1], 1}, {}, kStart), GroupStatus::kStale);
  late.limit.version = 7;
  EXPECT_EQ(DecideGroup(operations, {}, kStart), GroupStatus::kDecided);
  late.limit.version = 6;
  AdjustCharge(operations[1], {.at = kStart, .cost = 1, .version = 6}, -1, kStart);
  EXPECT_EQ(operations[1].verdict.outcome, Outcome::kUnavailable);
  EXPECT_FALSE(operations[1].edit.write);
}

TEST(Group, AConversionIsWrittenThoughAnotherLimitRefuses) {
  TestLimit changed = PerMinute(10), full = PerMinute(1);
  changed.Decide(kStart, 4);
  changed.Change({.count = 20, .period = Seconds(60)});
  full.Decide(kStart, 1);
  Decide({{&changed}, {&full}});
  EXPECT_EQ(changed.bucket.View().version, 2);
  EXPECT_EQ(changed.bucket.state().value, 4 * 3'000'000);
}

TEST(Group, AdjustingWithoutANumberDoesNothing) {
  TestLimit unlimited({.kind = RateKind::kUnlimited});
  EXPECT_EQ(unlimited.Adjust(kStart, {.at = kStart, .cost = 3}, -3).remaining, -1);
  EXPECT_FALSE(unlimited.bucket.present());
}

}  // namespace
}  // namespace penstock::core
