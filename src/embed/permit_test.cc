#include "penstock/permit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/limiter.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

static_assert(!std::is_copy_constructible_v<Permit> && std::is_nothrow_move_constructible_v<Permit>);

constexpr std::string_view kPolicy = R"(
domains:
  api:
    limits:
      - {name: exports, key: [tenant], permits: 2}
      - {name: brief, match: {kind: brief}, permits: 1, lease: 200ms}
      - {name: calls, match: {kind: brief}, rate: 1000/s}
  open:
    limits:
      - {name: rate, rate: 5/min}
)";

Limiter Open() {
  LimiterOptions options;
  options.policy_text = kPolicy;
  Expected<Limiter> limiter = Limiter::Open(options);
  if (!limiter) {
    ADD_FAILURE() << limiter.error().message;
    std::abort();
  }
  return *std::move(limiter);
}

// What comes soon is waited for; a failure only if it never does.
template <class Condition>
bool Comes(Condition&& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

TEST(Permit, IsHeldUntilItsObjectGoes) {
  Limiter limiter = Open();
  Acquired first = limiter.Acquire("api", {{"tenant", "a"}});
  ASSERT_TRUE(first);
  EXPECT_TRUE(first.permit.held());
  EXPECT_FALSE(first.permit.id().empty());
  EXPECT_TRUE(first.permit.fence());
  EXPECT_GT(first.permit.deadline(), std::chrono::steady_clock::now() + seconds(20));
  EXPECT_EQ(first.decision.remaining, 1);
  {
    const Acquired second = limiter.Acquire("api", {{"tenant", "a"}});
    EXPECT_TRUE(second);
    EXPECT_NE(second.permit.id(), first.permit.id());
    const Acquired third = limiter.Acquire("api", {{"tenant", "a"}});
    EXPECT_FALSE(third);
    EXPECT_FALSE(third.permit.held());
    EXPECT_TRUE(third.permit.id().empty());
    EXPECT_EQ(third.decision.outcome, Outcome::kDenied);
    EXPECT_TRUE(limiter.Acquire("api", {{"tenant", "b"}}));
  }
  EXPECT_TRUE(Comes([&] { return limiter.Look("api", {{{"tenant", "a"}}}).remaining == 1; }));
  first.permit.GiveBack();
  EXPECT_FALSE(first.permit.held());
  EXPECT_FALSE(first.permit.lost().stop_requested()) << "given back, not lost";
  EXPECT_TRUE(Comes([&] { return limiter.Look("api", {{{"tenant", "a"}}}).remaining == 2; }));
}

TEST(Permit, MovesItsHoldAndAnAssignmentGivesBackWhatWasHeld) {
  Limiter limiter = Open();
  Permit one = limiter.Acquire("api", {{"tenant", "a"}}).permit;
  Permit two = limiter.Acquire("api", {{"tenant", "a"}}).permit;
  ASSERT_TRUE(one.held() && two.held());
  const std::string id(two.id());
  one = std::move(two);
  EXPECT_EQ(one.id(), id);
  EXPECT_FALSE(two.held());  // NOLINT(bugprone-use-after-move): what was moved from holds nothing
  EXPECT_TRUE(Comes([&] { return limiter.Look("api", {{{"tenant", "a"}}}).remaining == 1; }));
}

TEST(Permit, WhereNoPermitLimitAppliesThereIsNothingToHold) {
  Limiter limiter = Open();
  const Acquired got = limiter.Acquire("open", {});
  EXPECT_TRUE(got);
  EXPECT_FALSE(got.permit.held());
  EXPECT_FALSE(got.permit.lost().stop_possible());
  EXPECT_TRUE(limiter.Acquire("nowhere", {}).decision.error);
}

// C68: nobody who goes on is told that it is lost.
TEST(Permit, IsRenewedOverManyLeases) {
  Limiter limiter = Open();
  const Acquired got = limiter.Acquire("api", {{"kind", "brief"}});
  ASSERT_TRUE(got);
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    ASSERT_FALSE(got.permit.lost().stop_requested()) << i;
    ASSERT_FALSE(limiter.Acquire("api", {{"kind", "brief"}})) << i;
  }
  EXPECT_TRUE(got.permit.held());
}

TEST(Permit, ItsOwnerIsToldWhenItIsLost) {
  Limiter limiter = Open();
  Acquired got = limiter.Acquire("api", {{"kind", "brief"}});
  ASSERT_TRUE(got);
  std::atomic<bool> told{false};
  const std::stop_callback callback(got.permit.lost(), [&] { told = true; });
  limiter.Reset("api", {{{"kind", "brief"}}});  // somebody takes it away
  EXPECT_TRUE(Comes([&] { return told.load(); }));
  EXPECT_FALSE(got.permit.held());
  const Acquired next = limiter.Acquire("api", {{"kind", "brief"}});
  ASSERT_TRUE(next);
  got.permit.GiveBack();  // touches nobody else's
  got.permit = Permit();
  EXPECT_FALSE(limiter.Acquire("api", {{"kind", "brief"}}));
  EXPECT_TRUE(next.permit.held());
}

TEST(Permit, IsWaitedForInTurn) {
  Limiter limiter = Open();
  std::vector<int> order;
  Acquired held = limiter.Acquire("queue", Semaphore{.permits = 1});
  ASSERT_TRUE(held);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      const Acquired got = limiter.Acquire("queue", Semaphore{.permits = 1}, {.max_wait = seconds(30)});
      ASSERT_TRUE(got) << i;
      EXPECT_GT(got.decision.permit->waited.count(), 0);
      order.push_back(i);  // one holds at a time
    });
    // Each stands in the queue before the next comes.
    std::this_thread::sleep_for(milliseconds(50));
  }
  held.permit.GiveBack();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
  EXPECT_FALSE(limiter.Acquire("queue", Semaphore{.permits = 1}, {.weight = 2}));
}

TEST(Permit, AWaitThatIsOverIsDenied) {
  Limiter limiter = Open();
  const Acquired held = limiter.Acquire("queue", Semaphore{.permits = 1});
  const Acquired got = limiter.Acquire("queue", Semaphore{.permits = 1}, {.max_wait = milliseconds(30)});
  EXPECT_FALSE(got);
  EXPECT_EQ(got.decision.outcome, Outcome::kDenied);
  EXPECT_TRUE(held.permit.held());
}

TEST(Permit, MayOutliveItsLimiter) {
  std::optional<Limiter> limiter(Open());
  const Acquired got = limiter->Acquire("api", {{"tenant", "a"}});
  ASSERT_TRUE(got.permit.held());
  limiter.reset();
  EXPECT_FALSE(got.permit.held());
  EXPECT_TRUE(got.permit.lost().stop_requested());
}

TEST(Permit, WhatIsGivenBackAtTheEndIsNotInTheLastSnapshot) {
  const std::filesystem::path dir =
      std::filesystem::path(testing::TempDir()) / ("penstock-permit-" + std::to_string(::getpid()));
  std::filesystem::create_directory(dir);
  LimiterOptions options;
  options.policy_text = kPolicy;
  options.snapshot_file = (dir / "state").string();
  Expected<Limiter> first = Limiter::Open(options);
  ASSERT_TRUE(first);
  std::optional<Limiter> limiter(*std::move(first));
  const Acquired got = limiter->Acquire("api", {{"tenant", "a"}});
  ASSERT_TRUE(got.permit.held());
  limiter.reset();
  Expected<Limiter> next = Limiter::Open(options);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(next->Look("api", {{{"tenant", "a"}}}).remaining, 2);
  std::filesystem::remove_all(dir);
}

// Many threads, N = 2: never more than two at work.
TEST(Permit, NeverMoreThanNAreAtWork) {
  Limiter limiter = Open();
  std::atomic<int> working{0}, most{0}, grants{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const Acquired got = limiter.Acquire("api", {{"tenant", "t"}}, {.max_wait = seconds(60)});
        ASSERT_TRUE(got) << ToString(got.decision.outcome) << " " << ToString(got.decision.reason);
        const int now = ++working;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(milliseconds(1));
        --working;
        ++grants;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(grants, 160);
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace penstock
