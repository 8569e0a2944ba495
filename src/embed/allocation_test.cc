// A decision allocates nothing once a limiter is warm: every operator new of this test program is counted, a thread.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "penstock/limiter.h"

namespace {
thread_local size_t allocations = 0;
}

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace penstock {
namespace {

class Allocation : public testing::Test {
 protected:
  static Limiter Open() {
    LimiterOptions options;
    options.policy_text = R"(
domains:
  api:
    limits:
      - {name: per-user, key: [user], rate: 5/h}
      - {name: per-ip, key: [{ip: {mask6: 64}}], rate: 100/min, algorithm: sliding_window}
      - {name: month, key: [user], rate: 1000, algorithm: fixed_window, calendar: month, timezone: Europe/Berlin}
      - {name: all, rate: 5000/s, shadow: true}
)";
    Expected<Limiter> limiter = Limiter::Open(options);
    if (!limiter) std::abort();
    return *std::move(limiter);
  }
  // What `work` allocates when it has run twice before.
  template <class Work>
  static size_t Counted(Work work) {
    work();
    work();
    const size_t before = allocations;
    work();
    return allocations - before;
  }
};

TEST_F(Allocation, AChecksDecisionNeedsNone) {
  Limiter limiter = Open();
  const std::array<Attribute, 2> attributes = {{{"user", "42"}, {"ip", "2001:db8::1"}}};
  size_t limits = 0;
  EXPECT_EQ(Counted([&] { limits = limiter.Check("api", attributes).limits.size(); }), 0u);
  EXPECT_EQ(limits, 4u);
  for (int i = 0; i < 5; ++i) limiter.Check("api", attributes);
  EXPECT_EQ(Counted([&] { EXPECT_FALSE(limiter.Check("api", attributes).allowed); }), 0u);
}

TEST_F(Allocation, AnAdHocDecisionNeedsNone) {
  Limiter limiter = Open();
  const AdHocLimit slow{.count = 10, .period = std::chrono::hours(1)};
  const AdHocLimit fast{.count = 20, .period = std::chrono::hours(1)};
  EXPECT_EQ(Counted([&] {
              limiter.Check("k", slow);
              limiter.Check("k", fast);
            }),
            0u);
}

TEST_F(Allocation, ManyDecisionsNeedNone) {
  Limiter limiter = Open();
  const std::array<Attribute, 2> attributes = {{{"user", "42"}, {"ip", "10.0.0.1"}}};
  std::vector<Request> requests(200);
  for (Request& request : requests) request = {"api", attributes, {}};
  std::vector<Decision> decisions(requests.size());
  EXPECT_EQ(Counted([&] { limiter.CheckMany(requests, decisions); }), 0u);
}

}  // namespace
}  // namespace penstock
