#include "core/plain_bucket.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/random.h"

namespace penstock::core {
namespace {

void ExpectEqual(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.saturated, b.saturated);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.remaining, b.remaining);
  EXPECT_EQ(a.taken, b.taken);
  EXPECT_EQ(a.retry_after, b.retry_after);
  EXPECT_EQ(a.reset_after, b.reset_after);
  EXPECT_EQ(a.wait, b.wait);
}

TEST(PlainBucket, OnlyAPositiveCostWithoutOptionsOnATokenBucketIsPlain) {
  const LimitParams bucket = *CompileRate({.count = 3, .period = Seconds(1)});
  EXPECT_TRUE(IsPlain(bucket, {}, 1));
  EXPECT_FALSE(IsPlain(bucket, {}, 0));
  EXPECT_FALSE(IsPlain(bucket, {}, -1));
  EXPECT_FALSE(IsPlain(bucket, {.max_wait = Micros{1}}, 1));
  EXPECT_FALSE(IsPlain(bucket, {.force = true}, 1));
  EXPECT_FALSE(IsPlain(bucket, {.partial = true}, 1));
  EXPECT_FALSE(
      IsPlain(*CompileRate({.algorithm = Algorithm::kFixedWindow, .count = 3, .period = Seconds(1)}), {}, 1));
  EXPECT_FALSE(IsPlain(*CompileRate({.kind = RateKind::kZero}), {}, 1));
  EXPECT_FALSE(IsPlain(*CompileRate({.kind = RateKind::kUnlimited}), {}, 1));
}

TEST(PlainBucket, AgreesWithTheGroupInEveryFieldWhateverTheStateAndTheClock) {
  const char* const text = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = text == nullptr ? 20'261'129 : std::strtoull(text, nullptr, 10);
  std::cout << "PENSTOCK_SEED=" << seed << std::endl;
  Random random(seed);
  int outcomes[4] = {};
  for (int round = 0; round < 2'000; ++round) {
    Limit limit;
    const int64_t huge = random.Below(10) == 0 ? 1'000'000 : 1;
    const Result<LimitParams> params = CompileRate({.count = random.Between(1, 60 * huge),
                                                    .period = Micros{random.Between(1, 5'000'000 * huge)},
                                                    .burst = random.Between(1, 30 * huge)});
    if (!params) continue;
    limit.params = *params;
    limit.version = random.Between(0, 1);
    EngineTime now{random.Between(0, 1'800'000'000'000'000)};
    BucketState state;
    bool present = false;
    for (int step = 0; step < 40; ++step) {
      const int64_t cost =
          random.Below(30) == 0 ? random.Between(1, 2'147'483'647) : random.Between(1, 3 * huge);
      Operation operation;
      operation.limit = &limit;
      operation.cost = cost;
      if (random.Below(20) == 0 && present) state.value = random.Between(0, kMaxExact);  // as force leaves it
      operation.bucket = {present, limit.version, &limit.params, state, {}};
      ASSERT_EQ(DecideGroup({&operation, 1}, {}, now), GroupStatus::kDecided);
      BucketState plain = state;
      Verdict verdict;
      const bool charged = DecidePlain(limit.params, present, cost, now, plain, verdict);
      ExpectEqual(verdict, operation.verdict);
      ASSERT_EQ(charged, operation.edit.write);
      ASSERT_EQ(plain, operation.edit.state);
      ++outcomes[static_cast<int>(verdict.outcome)];
      if (charged) {
        state = plain;
        present = true;
      }
      now = now + Micros{random.Below(10) == 0 ? random.Between(-1'000'000, 100'000'000)
                                               : random.Between(0, 200'000)};
      if (now < EngineTime{}) now = {};
    }
  }
  for (const Outcome outcome : {Outcome::kAllowed, Outcome::kDenied, Outcome::kNever}) {
    EXPECT_GT(outcomes[static_cast<int>(outcome)], 500);
  }
}

}  // namespace
}  // namespace penstock::core
