// A bucket of permits while its slot moves between two servers of a cluster: no permit is lost, none is granted beyond N,
// and none that is held is told unknown.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/log.h"
#include "conformance/harness.h"
#include "core/permits.h"
#include "engine/redis/keys.h"
#include "engine/redis/redis_engine.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "redis/cluster.h"

namespace penstock::conformance {
namespace {

using core::PermitFate;

constexpr int64_t kPermits = 4;
constexpr Micros kWait = Seconds(60);

class ClusterLoop final : public TestLoop {
 public:
  ClusterLoop(engine::Engine& engine, const Clock& clock)
      : clock_(clock),
        loop_(clock),
        dialer_(net::NewDialer(loop_)),
        session_(engine.OpenLoop({loop_, loop_, dialer_.get()})) {}
  ~ClusterLoop() override { session_->Close(); }

  engine::EngineSession& session() override { return *session_; }
  SteadyTime deadline() const override { return clock_.Steady() + Seconds(20); }
  void RunUntil(const bool& done) override {
    while (!done) loop_.RunTurn();  // the deadline ends what hangs
  }

 private:
  const Clock& clock_;
  net::Loop loop_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<engine::EngineSession> session_;
};

class ClusterEngine final : public TestEngine {
 public:
  explicit ClusterEngine(const std::string& url) : engine_(*engine::redis::ParseUrl(url), clock_) {
    SetLogLevel(LogLevel::kWarning);
  }
  engine::Engine& engine() override { return engine_; }
  EngineTime now() const override { return {}; }
  void SetNow(EngineTime) override { FAIL() << "this clock is not moved"; }
  std::unique_ptr<TestLoop> OpenLoop() override { return std::make_unique<ClusterLoop>(engine_, clock_); }

 private:
  SystemClock clock_;
  engine::redis::RedisEngine engine_;
};

class PermitMove : public testing::Test {
 protected:
  PermitMove() {
    fixtures::WaitFor("the registry", [&] { return static_cast<bool>(client_.TryRegister({limit_.get()})); });
    // Until every server is known: the first answers may be that it is not.
    fixtures::WaitFor("the bucket's server",
                      [&] { return Ask(NewAsk(), 0).result.state == engine::GroupState::kDecided; });
  }
  core::PermitAsk NewAsk(Micros queue_for = {}) { return {.id = {3, ++drawn_}, .queue_for = queue_for}; }
  Answer Ask(const core::PermitAsk& ask, int64_t weight = 1) {
    Request request;
    request.asks = {{limit_.get(), "k", weight}};
    request.permit = ask;
    return client_.Ask(request);
  }
  void Acquire() { Hold(Ask(NewAsk())); }
  void Hold(const Answer& answer) {
    ASSERT_EQ(answer.result.state, engine::GroupState::kDecided) << ToString(answer.result.reason);
    ASSERT_EQ(answer.outcome(), Outcome::kAllowed);
    const int64_t fence = core::Permits::FenceOf(answer.parts[0].charge);
    EXPECT_GT(fence, last_fence_);
    last_fence_ = fence;
    held_.push_back(answer.permit);
  }
  // All goes on as if the bucket stood where it was: N held and somebody waiting before and after.
  void GoOn() {
    ASSERT_EQ(held_.size(), static_cast<size_t>(kPermits));
    EXPECT_TRUE(Ask(waiting_).result.queued);  // he lives, however long the servers took to move
    for (const engine::PermitId& permit : held_) EXPECT_EQ(client_.Renew(permit), PermitFate::kRenewed);
    const core::PermitAsk next = NewAsk(kWait);
    EXPECT_TRUE(Ask(next).result.queued);
    const engine::PermitId oldest = held_.front();
    held_.erase(held_.begin());
    EXPECT_EQ(client_.Release(oldest), PermitFate::kReleased);
    EXPECT_EQ(client_.Release(oldest), PermitFate::kUnknown);
    EXPECT_TRUE(Ask(next).result.queued) << "another came before him";
    Hold(Ask(waiting_));
    waiting_ = next;
    const engine::HolderList list = client_.Holders(*limit_);
    EXPECT_EQ(list.in_use, kPermits);
    EXPECT_EQ(list.entries.size(), held_.size());
    EXPECT_EQ(list.waiting, 1);
  }

  fixtures::Cluster cluster_;
  ClusterEngine engine_{cluster_.Url()};
  Client client_{engine_};
  std::unique_ptr<core::Limit> limit_ = MakeLimit("n", Semaphore(kPermits, kMinute));
  uint64_t drawn_ = 0;
  int64_t last_fence_ = 0;
  std::vector<engine::PermitId> held_;
  core::PermitAsk waiting_;
};

TEST_F(PermitMove, ABucketWhoseSlotMovesLosesNoPermitAndGrantsNoneTwice) {
  for (int64_t i = 0; i < kPermits; ++i) Acquire();
  waiting_ = NewAsk(kWait);
  ASSERT_TRUE(Ask(waiting_).result.queued);
  GoOn();
  const int slot = engine::redis::SlotOfPermits(held_[0].places[0].bucket);
  for (int round = 0; round < 3; ++round) {
    const size_t from = cluster_.Owner(slot);
    const size_t to = (from + 1) % fixtures::Cluster::kMasters;
    cluster_.BeginMigration(slot, from, to);
    GoOn();
    EXPECT_GE(cluster_.MoveKeys(slot, from, to, 100), 1u);
    GoOn();  // ASK
    GoOn();
    cluster_.EndMigration(slot, to);
    GoOn();  // MOVED
    EXPECT_EQ(cluster_.Owner(slot), to);
  }
}

}  // namespace
}  // namespace penstock::conformance
