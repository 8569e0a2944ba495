#include "engine/redis/breaker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace penstock::engine::redis {
namespace {

Breaker Make(uint64_t seed = 1) {
  return Breaker({.failures = 3, .least = Millis(10), .most = Millis(500), .seed = seed});
}

TEST(Breaker, OpensAfterFailuresInARow) {
  Breaker breaker = Make();
  EXPECT_FALSE(breaker.Failed());
  EXPECT_FALSE(breaker.Failed());
  breaker.Answered();
  EXPECT_FALSE(breaker.Failed());
  EXPECT_FALSE(breaker.Failed());
  EXPECT_TRUE(breaker.closed());
  EXPECT_TRUE(breaker.Failed());
  EXPECT_FALSE(breaker.closed());
  EXPECT_FALSE(breaker.Failed());  // it is open already
  breaker.Close();
  EXPECT_FALSE(breaker.Failed());
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, DelaysDoubleUpToTheMostWithJitterOfHalf) {
  Breaker breaker = Make();
  int64_t full = Millis(10).count;
  for (int i = 0; i < 40; ++i) {
    const int64_t delay = breaker.NextDelay().count;
    EXPECT_GE(delay, full - full / 2);
    EXPECT_LE(delay, full);
    full = std::min(full * 2, Millis(500).count);
  }
}

TEST(Breaker, OnlyAnAnswerSetsThePaceBack) {
  Breaker breaker = Make();
  for (int i = 0; i < 10; ++i) breaker.NextDelay();
  breaker.Open();
  breaker.Close();
  EXPECT_GE(breaker.NextDelay().count, Millis(250).count);
  breaker.Answered();
  EXPECT_LE(breaker.NextDelay().count, Millis(10).count);
}

TEST(Breaker, AFleetDoesNotComeBackInOneInstant) {
  std::set<int64_t> delays;
  for (uint64_t seed = 0; seed < 100; ++seed) delays.insert(Make(seed).NextDelay().count);
  EXPECT_GT(delays.size(), 80u);
}

}  // namespace
}  // namespace penstock::engine::redis
