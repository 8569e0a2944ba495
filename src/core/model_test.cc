// The rules against the judge, over random traffic. PENSTOCK_SEED repeats a run; PENSTOCK_SCENARIOS makes it longer.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

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
    const Scenario small = Shrink(scenario, DecideGroup);
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
