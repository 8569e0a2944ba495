// The library's permits on a real Redis: two processes' worth of limiters share a semaphore; who cannot renew is told before
// the store lets the next one in, and what is given back while the store is away comes back.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "penstock/limiter.h"
#include "redis/redis_server.h"

namespace penstock::fixtures {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr Semaphore kOne{.permits = 1, .lease = milliseconds(1'000)};

Limiter Open(const RedisServer& redis) {
  LimiterOptions options;
  options.engine_url = redis.Url();
  options.timeout = milliseconds(2'000);
  Expected<Limiter> limiter = Limiter::Open(options);
  if (!limiter) throw std::runtime_error(limiter.error().message);
  for (int i = 0; i < 500 && limiter->Check("warm", {.count = 1, .period = seconds(1)}).degraded; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  return *std::move(limiter);
}

template <class Condition>
bool Comes(Condition&& condition) {
  for (int i = 0; i < 6'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

TEST(LibraryPermit, IsSharedByAllWhoNameItAndWaitedForInTurn) {
  const RedisServer redis;
  Limiter here = Open(redis);
  Limiter there = Open(redis);
  Acquired held = here.Acquire("job", kOne);
  ASSERT_TRUE(held.permit.held());
  EXPECT_FALSE(there.Acquire("job", kOne));
  std::thread giver([&] {
    std::this_thread::sleep_for(milliseconds(1'500));  // over more than a lease: it is renewed
    held.permit.GiveBack();
  });
  const Acquired next = there.Acquire("job", kOne, {.max_wait = seconds(30)});
  giver.join();
  ASSERT_TRUE(next);
  EXPECT_GT(next.decision.permit->waited, milliseconds(500));
  EXPECT_FALSE(held.permit.lost().stop_requested());
  EXPECT_GT(*next.permit.fence(), *held.permit.fence());
}

// The operator's checklist: who is cut off is told of the loss, before anybody else can hold.
TEST(LibraryPermit, WhoCannotRenewIsToldBeforeTheNextHolds) {
  RedisServer redis;
  Limiter here = Open(redis);
  const Acquired held = here.Acquire("job", kOne);
  ASSERT_TRUE(held.permit.held());
  redis.Freeze();
  steady_clock::time_point told;
  const std::stop_callback callback(held.permit.lost(), [&] { told = steady_clock::now(); });
  ASSERT_TRUE(Comes([&] { return held.permit.lost().stop_requested(); }));
  EXPECT_FALSE(held.permit.held());
  redis.Thaw();
  Limiter there = Open(redis);
  const Acquired next = there.Acquire("job", kOne, {.max_wait = seconds(30)});
  ASSERT_TRUE(next);
  EXPECT_LT(told, steady_clock::now());
}

TEST(LibraryPermit, WhatIsGivenBackWhileTheStoreIsAwayComesBackWithIt) {
  RedisServer redis({"appendonly yes", "appendfsync always"});
  Limiter here = Open(redis);
  constexpr Semaphore kLong{.permits = 1, .lease = std::chrono::minutes(10)};
  Acquired held = here.Acquire("job", kLong);
  ASSERT_TRUE(held.permit.held());
  redis.Kill();
  held.permit.GiveBack();
  redis.Start();
  EXPECT_TRUE(Comes([&] {
    const Acquired again = here.Acquire("job", kLong);
    return again.permit.held() && !again.decision.degraded;
  }));
}

}  // namespace
}  // namespace penstock::fixtures
