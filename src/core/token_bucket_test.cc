#include "core/token_bucket.h"

#include <gtest/gtest.h>

#include "core/group.h"

namespace penstock::core {
namespace {

TEST(TokenBucket, AnEmptyBucketRefusesUntilTheStatedInstantAndAdmitsAtIt) {
  Limit limit;
  limit.params = *CompileRate({.count = 30, .period = Seconds(60), .burst = 16});
  Operation operation;
  operation.limit = &limit;
  EngineTime now{1'785'000'000'000'000};
  for (int i = 0; i < 16; ++i) {
    operation.cost = 1;
    ASSERT_EQ(DecideGroup({&operation, 1}, {}, now), GroupStatus::kDecided);
    ASSERT_EQ(operation.verdict.outcome, Outcome::kAllowed);
    ASSERT_EQ(operation.verdict.remaining, 15 - i);
    operation.bucket = {.present = true, .params = &limit.params, .state = operation.edit.state};
  }
  DecideGroup({&operation, 1}, {}, now);
  EXPECT_EQ(operation.verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(operation.verdict.retry_after, Seconds(2));
  EXPECT_EQ(operation.verdict.reset_after, Seconds(32));
  EXPECT_FALSE(operation.edit.write);
  DecideGroup({&operation, 1}, {}, now + Micros{1'999'999});
  EXPECT_EQ(operation.verdict.outcome, Outcome::kDenied);
  DecideGroup({&operation, 1}, {}, now + Seconds(2));
  EXPECT_EQ(operation.verdict.outcome, Outcome::kAllowed);
}

}  // namespace
}  // namespace penstock::core
