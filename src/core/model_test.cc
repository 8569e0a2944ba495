// The rules against the judge, over random traffic. PENSTOCK_SEED repeats a run; PENSTOCK_SCENARIOS makes it longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/group.h"
#include "core/testing/scenario.h"

namespace penstock::core::testing {
namespace {

constexpr int kStepsPerScenario = 100;
constexpr uint64_t kScenarios = 2'000;  // an algorithm

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class JudgeTest : public ::testing::TestWithParam<Algorithm> {};

TEST_P(JudgeTest, EveryFieldOfEveryAnswerIsEqual) {
  const uint64_t seed = FromEnvironment("PENSTOCK_SEED", 1);
  const uint64_t scenarios = FromEnvironment("PENSTOCK_SCENARIOS", kScenarios);
  std::printf("PENSTOCK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Tally tally;
  for (uint64_t i = 0; i < scenarios; ++i) {
    const Scenario scenario = MakeScenario(seed * 1'000'003 + i, GetParam(), kStepsPerScenario);
    if (!Play(scenario, DecideGroup, &tally)) continue;
    const Scenario small =
        Shrink(scenario, [](const Scenario& s) { return Play(s, DecideGroup).has_value(); });
    FAIL() << Describe(small) << *Play(small, DecideGroup);
  }
  // The traffic must have reached every kind of answer, or equality says little.
  EXPECT_GT(tally.allowed, tally.steps / 10);
  EXPECT_GT(tally.denied, tally.steps / 10);
  EXPECT_GT(tally.never, 0);
  EXPECT_GT(tally.saturated, 0);
  EXPECT_GT(tally.converted, tally.steps / 50);
  EXPECT_GT(tally.adjusted, tally.steps / 50);
  EXPECT_GT(tally.waited, 0);
}

// Canaries: rules that are wrong in ways that once were somebody's bug. If the judge let one pass, it would be worth
// nothing; and the scenario that shows it must come out short enough to read.
struct Canary {
  const char* name;
  Algorithm algorithm;
  DecideFunction decide;
};

// Decides what the change makes of the buckets.
DecideFunction WithBuckets(void (*change)(Operation&, EngineTime)) {
  return [change](std::span<Operation> operations, const GroupOptions& options, EngineTime now) {
    for (Operation& operation : operations) change(operation, now);
    return DecideGroup(operations, options, now);
  };
}
// Changes what was decided.
DecideFunction WithAnswers(void (*change)(Operation&)) {
  return [change](std::span<Operation> operations, const GroupOptions& options, EngineTime now) {
    const GroupStatus status = DecideGroup(operations, options, now);
    for (Operation& operation : operations) change(operation);
    return status;
  };
}

std::vector<Canary> Canaries() {
  const auto mints_when_the_clock_steps_back = [](Operation& operation, EngineTime now) {
    operation.bucket.state.stamp = std::min(operation.bucket.state.stamp, now);
  };
  const auto forgets_old_parameters = [](Operation& operation, EngineTime) {
    if (operation.bucket.present) operation.bucket.params = &operation.limit->params;
  };
  const auto one_microsecond_early = [](Operation& operation) {
    if (operation.verdict.retry_after.count > 1) --operation.verdict.retry_after.count;
  };
  const auto forgets_a_unit = [](Operation& operation) {
    if (operation.edit.write && operation.edit.state.value > 0) --operation.edit.state.value;
  };
  const auto never_saturates = [](Operation& operation) { operation.verdict.saturated = false; };
  return {
      {"mints when the clock steps back", Algorithm::kTokenBucket,
       WithBuckets(mints_when_the_clock_steps_back)},
      {"forgets old parameters", Algorithm::kTokenBucket, WithBuckets(forgets_old_parameters)},
      {"forgets old parameters", Algorithm::kSlidingWindow, WithBuckets(forgets_old_parameters)},
      {"a microsecond early", Algorithm::kSlidingLog, WithAnswers(one_microsecond_early)},
      {"forgets one unit", Algorithm::kTokenBucket, WithAnswers(forgets_a_unit)},
      {"forgets one unit", Algorithm::kFixedWindow, WithAnswers(forgets_a_unit)},
      {"does not say that it saturated", Algorithm::kTokenBucket, WithAnswers(never_saturates)},
  };
}

TEST(JudgeCanary, WrongRulesAreCaughtAndShownInAFewSteps) {
  for (const Canary& canary : Canaries()) {
    const auto fails = [&](const Scenario& scenario) { return Play(scenario, canary.decide).has_value(); };
    bool caught = false;
    for (uint64_t seed = 1; seed <= kScenarios && !caught; ++seed) {
      const Scenario scenario = MakeScenario(seed, canary.algorithm, kStepsPerScenario);
      if (!fails(scenario)) continue;
      caught = true;
      const Scenario small = Shrink(scenario, fails);
      EXPECT_LE(small.steps.size(), 6U) << canary.name << "\n" << Describe(small);
      EXPECT_TRUE(fails(small)) << canary.name;
    }
    EXPECT_TRUE(caught) << canary.name;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Algorithm>& info) {
  constexpr const char* kNames[] = {"TokenBucket", "FixedWindow", "SlidingWindow", "SlidingLog"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Algorithms, JudgeTest,
                         ::testing::Values(Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                           Algorithm::kSlidingWindow, Algorithm::kSlidingLog),
                         NameOf);

}  // namespace
}  // namespace penstock::core::testing
