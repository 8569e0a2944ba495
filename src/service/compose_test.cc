#include "service/compose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "service/names.h"

namespace penstock::service {
namespace {

using std::chrono::microseconds;

// One limit with its verdict, as an engine leaves it.
struct Part {
  std::string name;
  core::Verdict verdict;
  bool shadow = false;
  core::OnFailure on_failure = core::OnFailure::kLocal;
  std::string unit = "requests";
};

Part Allowed(std::string name, int64_t limit, int64_t remaining) {
  return {std::move(name), {.outcome = Outcome::kAllowed, .limit = limit, .remaining = remaining}};
}
Part Denied(std::string name, int64_t limit, int64_t remaining, int64_t retry_us) {
  return {std::move(name),
          {.outcome = Outcome::kDenied, .limit = limit, .remaining = remaining, .retry_after = {retry_us}}};
}
Part Never(std::string name, int64_t limit) {
  return {std::move(name), {.outcome = Outcome::kNever, .limit = limit, .remaining = limit}};
}
Part Unasked(std::string name, core::OnFailure on_failure) {
  return {std::move(name), {.outcome = Outcome::kUnavailable}, false, on_failure};
}

// A Decision's names outlive the limits.
std::string_view Lasting(const std::string& name) {
  static LastingNames names;
  return *names.Keep(name);
}

class Composer {
 public:
  explicit Composer(std::vector<Part>&& parts) : kept_(std::move(parts)) { Fill(kept_); }
  explicit Composer(const std::vector<Part>& parts) { Fill(parts); }  // whose names must outlive the decision
  void Fill(const std::vector<Part>& parts) {
    limits_.resize(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      limits_[i].shadow = parts[i].shadow;
      limits_[i].on_failure = parts[i].on_failure;
      limits_[i].number = static_cast<uint32_t>(i);
      limits_[i].params.capacity = 10;
      infos_.push_back({Lasting(parts[i].name), Lasting(parts[i].unit), microseconds(60), 0});
      operations_.emplace_back();
      operations_.back().limit = &limits_[i];
      operations_.back().cost = 1;
      operations_.back().verdict = parts[i].verdict;
    }
    result_.state = engine::GroupState::kDecided;
  }
  Decision Compose() const {
    ComposeInput input;
    input.operations = operations_;
    input.result = &result_;
    input.infos = infos_.data();
    input.on_full = on_full_;
    input.partial = partial_;
    input.counters = counters_;
    Decision decision;
    service::Compose(input, decision);
    return decision;
  }
  engine::GroupResult result_;
  OnFull on_full_ = OnFull::kDeny;
  bool partial_ = false;
  LoopCounters* counters_ = nullptr;
  std::vector<core::Operation> operations_;

 private:
  std::vector<Part> kept_;
  std::vector<core::Limit> limits_;
  std::vector<LimitInfo> infos_;
};

// What the top level of an answer shows, as text.
std::string Top(const Decision& decision) {
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : "none"; };
  const std::string retry = decision.retry_after ? std::to_string(decision.retry_after->count()) : "none";
  return std::string(ToString(decision.outcome)) + " limit " + number(decision.limit) + " remaining " +
         number(decision.remaining) + " retry " + retry;
}

// The answer must be `expected` in every order of the limits that the rule does not tell apart by order.
void ExpectInEveryOrder(const std::vector<Part>& parts, const std::string& expected) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    std::vector<Part> arranged;
    std::string names;
    for (const size_t i : order) {
      arranged.push_back(parts[i]);
      names += parts[i].name + " ";
    }
    EXPECT_EQ(Top(Composer(arranged).Compose()), expected) << names;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(TopLevel, NeverBeforeDeniedBeforeUnavailableBeforeAllowed) {
  const Part allowed = Allowed("allowed", 10, 0);
  const Part unasked = Unasked("unasked", core::OnFailure::kAllow);
  const Part denied = Denied("denied", 20, 3, 500);
  const Part never = Never("never", 30);
  ExpectInEveryOrder({allowed, unasked, denied, never}, "never limit 30 remaining 30 retry none");
  ExpectInEveryOrder({allowed, unasked, denied}, "denied limit 20 remaining 3 retry 500");
  ExpectInEveryOrder({allowed, unasked}, "unavailable limit 10 remaining none retry none");
  ExpectInEveryOrder({allowed}, "allowed limit 10 remaining 0 retry 0");
}

TEST(TopLevel, OfSeveralRefusalsTheLongestWaitDecides) {
  ExpectInEveryOrder({Denied("a", 10, 0, 500), Denied("b", 20, 5, 900), Denied("c", 5, 1, 100)},
                     "denied limit 20 remaining 5 retry 900");
}

TEST(TopLevel, OfEqualWaitsTheSmallestRemainingThenTheSmallestLimit) {
  ExpectInEveryOrder({Denied("a", 10, 2, 500), Denied("b", 20, 1, 500), Denied("c", 5, 3, 500)},
                     "denied limit 20 remaining 1 retry 500");
  ExpectInEveryOrder({Denied("a", 10, 1, 500), Denied("b", 20, 1, 500), Denied("c", 5, 1, 500)},
                     "denied limit 5 remaining 1 retry 500");
  ExpectInEveryOrder({Never("a", 10), Never("b", 20), Never("c", 5)}, "never limit 5 remaining 5 retry none");
}

TEST(TopLevel, WhenAllowedTheSmallestRemainingThenTheSmallestLimit) {
  ExpectInEveryOrder({Allowed("a", 10, 7), Allowed("b", 100, 5), Allowed("c", 20, 6)},
                     "allowed limit 100 remaining 5 retry 0");
  ExpectInEveryOrder({Allowed("a", 10, 5), Allowed("b", 100, 5), Allowed("c", 20, 6)},
                     "allowed limit 10 remaining 5 retry 0");
}

TEST(TopLevel, OfEqualLimitsTheFirstInThePolicysOrder) {
  Part first = Allowed("first", 10, 5);
  Part second = Allowed("second", 10, 5);
  first.verdict.reset_after = {111};
  second.verdict.reset_after = {222};
  EXPECT_EQ(Composer({first, second}).Compose().reset_after, microseconds(111));
  EXPECT_EQ(Composer({second, first}).Compose().reset_after, microseconds(222));
}

TEST(TopLevel, UnlimitedIsMoreThanAnyNumberAndHasNone) {
  ExpectInEveryOrder({Allowed("finite", 10, 9), Allowed("unlimited", -1, -1)},
                     "allowed limit 10 remaining 9 retry 0");
  ExpectInEveryOrder({Allowed("a", -1, -1), Allowed("b", -1, -1)},
                     "allowed limit none remaining none retry 0");
}

TEST(TopLevel, ShadowLimitsTakeNoPart) {
  Part shadow = Denied("shadow", 1, 0, 9'000);
  shadow.shadow = true;
  ExpectInEveryOrder({Allowed("enforced", 10, 9), shadow}, "allowed limit 10 remaining 9 retry 0");
  ExpectInEveryOrder({Denied("enforced", 10, 0, 70), shadow}, "denied limit 10 remaining 0 retry 70");
  const Decision alone = Composer({shadow}).Compose();
  EXPECT_EQ(Top(alone), "allowed limit none remaining none retry 0");
  EXPECT_TRUE(alone.allowed);
  ASSERT_EQ(alone.limits.size(), 1u);
  EXPECT_EQ(alone.limits[0].outcome, Outcome::kDenied);
  EXPECT_TRUE(alone.limits[0].shadow);
}

TEST(TopLevel, EveryLimitIsListedInThePolicysOrder) {
  std::vector<Part> parts;
  for (int i = 0; i < 20; ++i) parts.push_back(Allowed("l" + std::to_string(i), 100, 50 - i));
  const Decision decision = Composer(parts).Compose();
  ASSERT_EQ(decision.limits.size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(decision.limits[i].name, parts[i].name);
  EXPECT_EQ(decision.remaining, 31);
}

TEST(TopLevel, ADecisionIsCopiedWithAllItsLimits) {
  std::vector<Part> parts;
  for (int i = 0; i < 12; ++i) parts.push_back(Allowed("l" + std::to_string(i), 100, i));
  const Decision decision = Composer(parts).Compose();
  Decision copy = decision;
  ASSERT_EQ(copy.limits.size(), 12u);
  Decision moved = std::move(copy);
  Decision assigned;
  assigned = moved;
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(moved.limits[i].name, parts[i].name);
    EXPECT_EQ(assigned.limits[i].remaining, static_cast<int64_t>(i));
  }
}

TEST(Unavailable, FollowsEachLimitsOnFailure) {
  const auto allowed = [](std::vector<Part> parts, Reason reason, OnFull on_full) {
    Composer composer(parts);
    composer.result_ = {.state = engine::GroupState::kUnavailable, .reason = reason, .now = {}};
    composer.on_full_ = on_full;
    const Decision decision = composer.Compose();
    EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
    EXPECT_TRUE(decision.degraded);
    EXPECT_EQ(decision.reason, reason);
    EXPECT_FALSE(decision.retry_after.has_value());
    EXPECT_FALSE(decision.remaining.has_value());
    EXPECT_EQ(decision.limit, 10);
    for (size_t i = 0; i < decision.limits.size(); ++i) EXPECT_TRUE(decision.limits[i].degraded);
    return decision.allowed;
  };
  const Part allow = Unasked("allow", core::OnFailure::kAllow);
  const Part deny = Unasked("deny", core::OnFailure::kDeny);
  const Part local = Unasked("local", core::OnFailure::kLocal);
  EXPECT_TRUE(allowed({allow, allow}, Reason::kTimeout, OnFull::kDeny));
  EXPECT_FALSE(allowed({allow, deny}, Reason::kTimeout, OnFull::kAllow));
  EXPECT_FALSE(allowed({local}, Reason::kTimeout, OnFull::kAllow));
  EXPECT_FALSE(allowed({local}, Reason::kFull, OnFull::kDeny));
  EXPECT_TRUE(allowed({local, allow}, Reason::kFull, OnFull::kAllow));
  EXPECT_FALSE(allowed({deny}, Reason::kFull, OnFull::kAllow));
}

TEST(Unavailable, AShadowLimitsFailureChangesNothing) {
  Part shadow = Unasked("shadow", core::OnFailure::kDeny);
  shadow.shadow = true;
  const Decision decision = Composer({shadow, Allowed("enforced", 10, 9)}).Compose();
  EXPECT_TRUE(decision.allowed);
  EXPECT_FALSE(decision.degraded);
  EXPECT_EQ(decision.outcome, Outcome::kAllowed);
}

TEST(Unavailable, WhatAStandInDecidedIsDegradedAndTheRestFollowsItsOwnRule) {
  const auto compose = [](const std::vector<Part>& parts) {
    Composer composer(parts);
    composer.result_.degraded = true;
    composer.result_.reason = Reason::kTimeout;
    return composer.Compose();
  };
  const Part local = Allowed("local", 5, 4);
  Decision decision = compose({local});
  EXPECT_TRUE(decision.allowed);
  EXPECT_TRUE(decision.degraded);
  EXPECT_TRUE(decision.limits[0].degraded);
  EXPECT_EQ(decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(decision.reason, Reason::kTimeout);
  EXPECT_EQ(decision.remaining, 4);
  const Part refused = Denied("local", 5, 0, 70);
  decision = compose({refused, Unasked("allow", core::OnFailure::kAllow)});
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kDenied);
  EXPECT_EQ(decision.retry_after, microseconds(70));
  decision = compose({local, Unasked("allow", core::OnFailure::kAllow)});
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  decision = compose({local, Unasked("deny", core::OnFailure::kDeny)});
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  // Its share is smaller than the cost.
  EXPECT_FALSE(compose({Unasked("local", core::OnFailure::kLocal)}).allowed);
}

TEST(Unavailable, ADegradedAnswerIsCountedByItsReason) {
  LoopCounters counters;
  const std::vector<Part> parts = {Allowed("local", 5, 4)};
  Composer composer(parts);
  composer.counters_ = &counters;
  composer.Compose();
  composer.result_.degraded = true;
  composer.result_.reason = Reason::kEngineDown;
  composer.Compose();
  EXPECT_EQ(counters.totals.degraded[static_cast<size_t>(Reason::kEngineDown)].value(), 1u);
  EXPECT_EQ(counters.At(0).outcomes[0].value(), 1u);
  EXPECT_EQ(counters.At(0).degraded[0].value(), 1u);
}

TEST(Compose, TakenIsToldAUnit) {
  Part requests = Allowed("rpm", 100, 99);
  requests.verdict.taken = 1;
  Part tokens = Allowed("tpm", 1'000, 0);
  tokens.verdict.taken = 300;
  tokens.unit = "tokens";
  Part tokens_day = tokens;
  tokens_day.name = "tpd";
  Composer composer({requests, tokens, tokens_day});
  EXPECT_TRUE(composer.Compose().taken.empty());
  composer.partial_ = true;
  const Decision decision = composer.Compose();
  ASSERT_EQ(decision.taken.size(), 2u);
  EXPECT_EQ(decision.taken[0].unit, "requests");
  EXPECT_EQ(decision.taken[0].taken, 1);
  EXPECT_EQ(decision.taken[1].unit, "tokens");
  EXPECT_EQ(decision.taken[1].taken, 300);
}

TEST(Compose, OfARefundTheSmallestThatCameBackIsTold) {
  const auto refund = [](std::string name, int64_t taken) {
    Part part = Allowed(std::move(name), 100, 100);
    part.verdict.taken = taken;
    return part;
  };
  Composer composer({refund("hour", -5), refund("minute", -2), refund("day", -5)});
  composer.partial_ = true;
  const Decision decision = composer.Compose();
  ASSERT_EQ(decision.taken.size(), 1u);
  EXPECT_EQ(decision.taken[0].taken, -2);
}

TEST(Compose, ALimitThatTookNoPartInAReplayIsLeftOut) {
  Composer composer({Allowed("old", 10, 9), Allowed("new", 5, 1)});
  composer.operations_[1].skipped = true;
  composer.result_.replayed = true;
  const Decision decision = composer.Compose();
  ASSERT_EQ(decision.limits.size(), 1u);
  EXPECT_EQ(decision.remaining, 9);
  EXPECT_TRUE(decision.replayed);
}

TEST(Compose, TheLongestWaitAndAnySaturationReachTheTop) {
  Part a = Allowed("a", 10, 1);
  a.verdict.wait = {500};
  Part b = Allowed("b", 10, 2);
  b.verdict.wait = {900};
  b.verdict.saturated = true;
  const Decision decision = Composer({a, b}).Compose();
  EXPECT_EQ(decision.wait, microseconds(900));
  EXPECT_TRUE(decision.saturated);
}

TEST(RefillTime, OfABurstThatIsNotTheCount) {
  core::LimitParams params;
  params.count = 100;
  params.capacity = 20;
  params.period = Seconds(60);
  EXPECT_EQ(RefillTime(params), std::chrono::seconds(12));
  params.capacity = 100;
  EXPECT_EQ(RefillTime(params), std::chrono::seconds(60));
  params.count = 3;
  params.capacity = 1;
  EXPECT_EQ(RefillTime(params), std::chrono::seconds(20));
  params.algorithm = core::Algorithm::kSlidingWindow;
  EXPECT_EQ(RefillTime(params), std::chrono::seconds(60));
}

}  // namespace
}  // namespace penstock::service
