// From requests to decisions, on an engine that answers inline.
#include <gtest/gtest.h>

#include "service/decider_fixture.h"

namespace penstock::service {
namespace {

TEST_F(DeciderTest, AnswersByTheLimitsThatMatch) {
  Publish({MakeLimit("per-user", {"user"}, "2/min"), MakeLimit("per-ip", {"ip"}, "1/min")});
  const Decision first = answers_[Check(Ask(kUser42))];
  EXPECT_TRUE(first.allowed);
  ASSERT_EQ(first.limits.size(), 1u);
  EXPECT_EQ(first.limits[0].name, "per-user");
  EXPECT_EQ(first.limits[0].unit, "requests");
  EXPECT_EQ(first.limit, 2);
  EXPECT_EQ(first.remaining, 1);
  EXPECT_EQ(first.retry_after, std::chrono::microseconds(0));
  EXPECT_EQ(first.limits[0].window, std::chrono::seconds(60));
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
  const Decision third = answers_[Check(Ask(kUser42))];
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.outcome, Outcome::kDenied);
  EXPECT_EQ(third.retry_after, std::chrono::seconds(30));
}

TEST_F(DeciderTest, SeveralSubmitsBeforeAFlushAreOneBatch) {
  Publish({MakeLimit("per-user", {"user"}, "100/min")});
  for (int i = 0; i < 64; ++i) Submit(Ask(kUser42));
  EXPECT_EQ(answers_.size(), 0u);
  decider().Flush();
  EXPECT_EQ(session_.batches, std::vector<size_t>{64});
  EXPECT_EQ(answers_.size(), 64u);
  EXPECT_EQ(answers_[64].remaining, 36);
}

TEST_F(DeciderTest, MoreThanABatchHoldsAreDecidedInSeveral) {
  Publish({MakeLimit("per-user", {"user"}, "1_000_000/min")});
  for (int i = 0; i < 2'500; ++i) Submit(Ask(kUser42));
  decider().Flush();
  EXPECT_EQ(session_.batches, (std::vector<size_t>{1'024, 1'024, 452}));
  EXPECT_EQ(answers_.size(), 2'500u);
}

TEST_F(DeciderTest, RequestsAreCopiedUnlessStable) {
  Publish({MakeLimit("per-user", {"user"}, "1/min")});
  {
    const std::string user = "a user name that stands on the heap";
    const std::vector<Attribute> attributes = {{"user", user}};
    Submit(Ask(attributes));
    Submit(Ask(attributes));
  }
  decider().Flush();
  EXPECT_TRUE(answers_[1].allowed);
  EXPECT_FALSE(answers_[2].allowed);

  Decision into;
  Request request = Ask(kUser42);
  request.stable = true;
  request.into = &into;
  Check(request);
  EXPECT_TRUE(into.allowed);
  EXPECT_EQ(into.remaining, 0);
}

TEST_F(DeciderTest, NothingMatchedIsAllowedWithoutNumbers) {
  Publish({MakeLimit("per-user", {"user"}, "1/min")});
  const Decision decision = answers_[Check(Ask({}))];
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kAllowed);
  EXPECT_TRUE(decision.limits.empty());
  EXPECT_FALSE(decision.limit.has_value());
  EXPECT_FALSE(decision.remaining.has_value());
  EXPECT_TRUE(session_.batches.empty());
  EXPECT_EQ(metrics_.Totals().unmatched, 1u);
}

TEST_F(DeciderTest, AnUnknownDomainIsAnErrorThatNamesIt) {
  Request request = Ask(kUser42);
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kNotFound);
  Publish({MakeLimit("per-user", {"user"}, "1/min")});
  request.domain = "apo";
  const Error& error = answers_.error(Check(request));
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_EQ(error.message, "unknown domain \"apo\"");
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
}

TEST_F(DeciderTest, ALimitWhoseUnitIsNotNamedDoesNotApply) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});

  EXPECT_EQ(answers_[Check(Ask(kUser42))].limits.size(), 1u);
  const UnitCost only_tokens[] = {{"tokens", 600}};
  Request request = Ask(kUser42);
  request.options.costs = only_tokens;
  const Decision charged = answers_[Check(request)];
  ASSERT_EQ(charged.limits.size(), 1u);
  EXPECT_EQ(charged.limits[0].unit, "tokens");
  EXPECT_EQ(charged.remaining, 400);

  const UnitCost peek_tokens[] = {{"requests", 1}, {"tokens", 0}};
  request.options.costs = peek_tokens;
  const Decision peeked = answers_[Check(request)];
  ASSERT_EQ(peeked.limits.size(), 2u);
  EXPECT_EQ(peeked.limits[0].remaining, 8);
  EXPECT_EQ(peeked.limits[1].remaining, 400);

  const UnitCost unknown[] = {{"bytes", 1}};
  request.options.costs = unknown;
  EXPECT_TRUE(answers_[Check(request)].limits.empty());
}

// Case C28 without permits: a refusal by one unit's limit leaves the other's untouched.
TEST_F(DeciderTest, CostsByUnitAreChargedTogetherOrNotAtAll) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});
  const UnitCost costs[] = {{"requests", 1}, {"tokens", 500}};
  Request request = Ask(kUser42);
  request.options.costs = costs;
  Check(request);
  const Decision second = answers_[Check(request)];
  EXPECT_EQ(second.limits[0].remaining, 8);
  EXPECT_EQ(second.limits[1].remaining, 0);
  const Decision third = answers_[Check(request)];
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.limits[0].remaining, 8);
  EXPECT_EQ(third.limits[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(third.limits[1].outcome, Outcome::kDenied);
}

TEST_F(DeciderTest, PartialSaysWhatWasTakenAUnit) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});
  const UnitCost costs[] = {{"requests", 1}, {"tokens", 1'500}};
  Request request = Ask(kUser42);
  request.options.costs = costs;
  request.options.partial = true;
  const Decision first = answers_[Check(request)];
  EXPECT_TRUE(first.allowed);
  ASSERT_EQ(first.taken.size(), 2u);
  EXPECT_EQ(first.taken[0].taken, 1);
  EXPECT_EQ(first.taken[1].taken, 1'000);
  // Case C11: nothing is there, nothing is taken, in no unit.
  const Decision second = answers_[Check(request)];
  EXPECT_EQ(second.outcome, Outcome::kDenied);
  ASSERT_EQ(second.taken.size(), 2u);
  EXPECT_EQ(second.taken[0].taken, 0);
  EXPECT_EQ(second.taken[1].taken, 0);
  EXPECT_EQ(second.limits[0].remaining, 9);
}

// Case C34.
TEST_F(DeciderTest, AnExhaustedShadowLimitOnlyCounts) {
  policy::LimitDefinition shadow = MakeLimit("shadow", {"user"}, "1/min");
  shadow.shadow = true;
  Publish({shadow, MakeLimit("enforced", {"user"}, "3/min")});
  for (int i = 0; i < 3; ++i) {
    const Decision decision = answers_[Check(Ask(kUser42))];
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.limit, 3);
    EXPECT_EQ(decision.remaining, 2 - i);
    EXPECT_EQ(decision.retry_after, std::chrono::microseconds(0));
  }
  EXPECT_FALSE(answers_[Check(Ask(kUser42))].allowed);
  const LimitCounts counts = Counts("shadow");
  EXPECT_EQ(counts.shadow[static_cast<size_t>(Outcome::kAllowed)], 1u);
  EXPECT_EQ(counts.shadow[static_cast<size_t>(Outcome::kDenied)], 3u);
  EXPECT_EQ(counts.outcomes[static_cast<size_t>(Outcome::kDenied)], 0u);
  const LimitCounts enforced = Counts("enforced");
  EXPECT_EQ(enforced.outcomes[static_cast<size_t>(Outcome::kAllowed)], 3u);
  EXPECT_EQ(enforced.outcomes[static_cast<size_t>(Outcome::kDenied)], 1u);
}

TEST_F(DeciderTest, LooksShowEveryUnitAndChangeNothing) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});
  Check(Ask(kUser42, 4));
  Request look = Ask(kUser42);
  look.look = true;
  for (int i = 0; i < 2; ++i) {
    const Decision seen = answers_[Check(look)];
    ASSERT_EQ(seen.limits.size(), 2u);
    EXPECT_EQ(seen.limits[0].remaining, 6);
    EXPECT_EQ(seen.limits[1].remaining, 1'000);
  }
  look.only_limit = "tpm";
  EXPECT_EQ(answers_[Check(look)].limits.size(), 1u);
  look.only_limit = "tpx";
  EXPECT_EQ(answers_.error(Check(look)).kind, ErrorKind::kNotFound);
  EXPECT_EQ(metrics_.Totals().requests, 1u);
}

TEST_F(DeciderTest, ResetGoesToTheEngineAsSuchWithoutACost) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakeLimit("day", {"user"}, "100/d")});
  Request reset = Ask(kUser42);
  reset.mode = engine::Mode::kReset;
  reset.only_limit = "day";
  Check(reset);
  ASSERT_EQ(session_.seen.size(), 1u);
  EXPECT_EQ(session_.seen[0].mode, engine::Mode::kReset);
  EXPECT_EQ(session_.seen[0].count, 1u);
}

}  // namespace
}  // namespace penstock::service
