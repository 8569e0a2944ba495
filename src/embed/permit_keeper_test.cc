#include "embed/permit_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "service/fake_engine.h"

namespace penstock::embed {
namespace {

using core::PermitFate;

class FakeDesk final : public service::PermitDesk {
 public:
  struct Asked {
    service::PermitReceiver* receiver;
    uint64_t token;
  };
  void Release(std::string_view, service::PermitReceiver& receiver, uint64_t token) override {
    releases.push_back({&receiver, token});
  }
  void Renew(std::string_view, std::chrono::milliseconds, service::PermitReceiver& receiver,
             uint64_t token) override {
    renewals.push_back({&receiver, token});
  }
  void Flush() override {}
  void Detach(const service::PermitReceiver&) override {}

  static void Answer(std::vector<Asked>& asked, PermitFate fate, Micros expires_in = {}) {
    const std::vector<Asked> all = std::exchange(asked, {});
    for (const Asked& one : all) {
      one.receiver->PermitAnswered(one.token,
                                   {.fate = fate, .expires_in = std::chrono::microseconds(expires_in.count)});
    }
  }
  std::vector<Asked> renewals, releases;
};

class PermitKeeperTest : public testing::Test {
 protected:
  // Granted now for so long.
  std::shared_ptr<Permit::State> Keep(Micros lease) {
    PermitGrant grant{};
    grant.id.Assign("p");
    grant.expires_in = std::chrono::microseconds(lease.count);
    auto state = std::make_shared<Permit::State>(grant, std::chrono::milliseconds(0), clock_.Steady(), clock_,
                                                 std::make_shared<KeeperPost>(executor_, keeper_));
    keeper_.Keep(state);
    return state;
  }
  void Pass(Micros by) {
    clock_.Advance(by);
    timer_.FireDue();
  }

  ManualClock clock_{EngineTime{1'800'000'000'000'000}};
  service::FakeExecutor executor_;
  service::ClockTimer timer_{clock_};
  FakeDesk desk_;
  PermitKeeper keeper_{desk_, timer_, clock_};
};

// What is held keeps the lease that it was granted, its renewals get the limit's new one.
TEST_F(PermitKeeperTest, IsNotLostWhenTheLimitsLeaseBecomesShorter) {
  const std::shared_ptr<Permit::State> state = Keep(Seconds(30));
  SteadyTime expires_at = clock_.Steady() + Seconds(30);
  int renewals = 0;
  for (int i = 0; i < 600; ++i) {
    Pass(Millis(100));
    renewals += static_cast<int>(desk_.renewals.size());
    ASSERT_LT(clock_.Steady(), expires_at);
    if (!desk_.renewals.empty()) expires_at = std::max(expires_at, clock_.Steady() + Seconds(2));
    FakeDesk::Answer(desk_.renewals, PermitFate::kRenewed, expires_at - clock_.Steady());
    ASSERT_TRUE(state->held()) << i;
    ASSERT_LT(state->deadline(), expires_at);
  }
  EXPECT_GE(renewals, 30 * 3 / 2);
}

TEST_F(PermitKeeperTest, IsLostAtTheOwnersDeadlineIfNobodyAnswers) {
  const std::shared_ptr<Permit::State> state = Keep(Seconds(30));
  Pass(Seconds(10));
  ASSERT_EQ(desk_.renewals.size(), 1u);
  for (int i = 0; i < 18; ++i) {
    FakeDesk::Answer(desk_.renewals, PermitFate::kUnavailable);
    Pass(Seconds(1));
    EXPECT_TRUE(state->held());
  }
  FakeDesk::Answer(desk_.renewals, PermitFate::kUnavailable);
  EXPECT_FALSE(state->lost.stop_requested());
  Pass(Millis(500));
  EXPECT_FALSE(state->held());
  EXPECT_TRUE(state->lost.stop_requested());
  EXPECT_EQ(keeper_.size(), 0u);
}

TEST_F(PermitKeeperTest, AtTheEndTheReleaseIsWaitedForAndNoRenewalIsTakenForIt) {
  Keep(Seconds(30));
  Pass(Seconds(10));
  ASSERT_EQ(desk_.renewals.size(), 1u);
  bool done = false;
  keeper_.Close([&done] { done = true; });
  ASSERT_EQ(desk_.releases.size(), 1u);
  FakeDesk::Answer(desk_.renewals, PermitFate::kRenewed, Seconds(30));
  EXPECT_FALSE(done);
  FakeDesk::Answer(desk_.releases, PermitFate::kReleased);
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace penstock::embed
