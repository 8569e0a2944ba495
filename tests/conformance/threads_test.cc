// Many threads, each with a loop of its own: counts stay exact, all-or-nothing holds, ids charge once.
#include <atomic>
#include <thread>

#include "harness.h"

namespace penstock::conformance {
namespace {

constexpr int kThreads = 64;

class Threads : public ConformanceTest {
 protected:
  // Runs `work(client, thread)` on every thread.
  template <class Work>
  void Run(Work&& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Client client(*engine_);
        work(client, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Threads, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(Threads, TwentyThousandCallsOnABucketOfAThousandAdmitExactlyAThousand) {
  constexpr int kCalls = 20'000;
  const auto limit = Registered("day", Bucket(1'000, kDay));
  std::atomic<int> admitted{0};
  Run([&](Client& client, int thread) {
    for (int i = thread; i < kCalls; i += kThreads)
      admitted += client.Check(*limit).outcome == Outcome::kAllowed;
  });
  EXPECT_EQ(admitted, 1'000);
}

TEST_P(Threads, ARefusalByOneOfTwoLimitsLeavesTheOtherUntouched) {
  const auto wide = Registered("wide", Bucket(100'000, kDay));
  const auto narrow = Registered("narrow", Fixed(500, kDay));
  std::atomic<int> admitted{0};
  Run([&](Client& client, int thread) {
    // Both orders, so that locks taken in the order of the request would meet each other.
    const Ask first{wide.get()};
    const Ask second{narrow.get()};
    Request request;
    request.asks = thread % 2 == 0 ? std::vector{first, second} : std::vector{second, first};
    for (int i = 0; i < 100; ++i) admitted += client.Ask(request).outcome() == Outcome::kAllowed;
  });
  EXPECT_EQ(admitted, 500);
  EXPECT_EQ(client_.Check(*wide, 0).remaining, 100'000 - 500);
  EXPECT_EQ(client_.Check(*narrow, 0).remaining, 0);
}

TEST_P(Threads, ARequestIdIsChargedOnceHoweverManyRepeatIt) {
  const auto limit = Registered("once", Bucket(1'000, kDay));
  std::atomic<int> first{0};
  Run([&](Client& client, int) {
    for (int i = 0; i < 20; ++i) {
      const std::string id = "id" + std::to_string(i);
      Request request;
      request.asks = {{limit.get(), "k", 3}};
      request.request_id = id;
      first += !client.Ask(request).result.replayed;
    }
  });
  EXPECT_EQ(first, 20);
  EXPECT_EQ(client_.Check(*limit, 0).remaining, 1'000 - 60);
}

TEST_P(Threads, KeysThatAppearTogetherAreCountedTogether) {
  constexpr int kKeys = 300;
  const auto limit = Registered("keys", Log(kThreads / 2, kDay));
  std::atomic<int> admitted{0};
  Run([&](Client& client, int thread) {
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string((i * 7 + thread) % kKeys);
      admitted += client.Check(*limit, 1, key).outcome == Outcome::kAllowed;
    }
  });
  EXPECT_EQ(admitted, kKeys * kThreads / 2);
}

}  // namespace
}  // namespace penstock::conformance
