#include "engine/redis/checkup/scratch.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/clock.h"
#include "engine/memory/memory_engine.h"
#include "engine/redis/checkup/testing.h"

namespace penstock::checkup {
namespace {

// The memory engine, and what a test does to its answers.
class BentSession final : public engine::EngineSession {
 public:
  using Bend = void (*)(engine::Batch&, engine::Group&);
  BentSession(std::unique_ptr<engine::EngineSession> real, Bend bend) : real_(std::move(real)), bend_(bend) {}
  void Decide(engine::Batch& batch, SteadyTime deadline, engine::Sink& sink) noexcept override {
    struct Through final : engine::Sink {
      Through(engine::Sink& to, Bend bend) : to_(to), bend_(bend) {}
      void Decided(engine::Batch& b, engine::Group& group) noexcept override {
        bend_(b, group);
        to_.Decided(b, group);
      }
      engine::Sink& to_;
      const Bend bend_;
    } through(sink, bend_);
    real_->Decide(batch, deadline, through);
  }
  EngineTime EstimateNow() const override { return real_->EstimateNow(); }
  engine::LimitRegistry& registry() override { return real_->registry(); }
  Result<void> Bind(std::span<core::Limit* const> limits) override { return real_->Bind(limits); }
  bool BindAdHoc(core::Limit& limit) override { return real_->BindAdHoc(limit); }

 private:
  const std::unique_ptr<engine::EngineSession> real_;
  const Bend bend_;
};

class BentEngine final : public engine::Engine {
 public:
  BentEngine(engine::MemoryEngine& real, BentSession::Bend bend) : real_(real), bend_(bend) {}
  std::string_view name() const override { return "bent"; }
  std::unique_ptr<engine::EngineSession> OpenLoop(const engine::LoopParts& parts) override {
    return std::make_unique<BentSession>(real_.OpenLoop(parts), bend_);
  }
  Result<void> CanHold(const core::LimitParams&) const override { return {}; }
  bool CanHoldPermits() const override { return false; }
  bool ready() const override { return true; }
  engine::EngineStats stats() const override { return {}; }

 private:
  engine::MemoryEngine& real_;
  const BentSession::Bend bend_;
};

class ScratchTest : public testing::Test {
 protected:
  RaceResult Go(engine::Engine& engine, core::Algorithm algorithm = core::Algorithm::kTokenBucket) {
    return Race({engine, clock_, Millis(20)}, algorithm, {});
  }

  SystemClock clock_;
  engine::MemoryEngine memory_{{.shards = 4}, clock_};
};

TEST_F(ScratchTest, ExactlyTheCapacityIsAdmittedAndNothingIsLeft) {
  std::vector<RaceResult> races;
  for (const core::Algorithm algorithm : {core::Algorithm::kTokenBucket, core::Algorithm::kFixedWindow,
                                          core::Algorithm::kSlidingWindow, core::Algorithm::kSlidingLog}) {
    races.push_back(Go(memory_, algorithm));
    EXPECT_EQ(races.back().admitted, 100u) << races.back().algorithm;
    EXPECT_EQ(races.back().denied, 300u) << races.back().algorithm;
    EXPECT_TRUE(races.back().cleaned) << races.back().algorithm;
  }
  const Finding finding = CheckAtomicity(races);
  EXPECT_EQ(finding.status, Status::kOk) << Show(finding);
  EXPECT_EQ(memory_.stats().keys, 0u);
}

TEST_F(ScratchTest, TheBucketIsThereBeforeItIsDropped) {
  bool called = false;
  const RaceResult race = Race({memory_, clock_, Millis(20)}, core::Algorithm::kTokenBucket,
                               [&](const core::Limit& limit, std::string_view key) {
                                 called = true;
                                 EXPECT_EQ(limit.domain, "(verify)");
                                 EXPECT_EQ(key.size(), 32u);
                                 EXPECT_EQ(memory_.stats().keys, 1u);
                               });
  EXPECT_TRUE(called);
  EXPECT_GT(race.reset_after, Seconds(3'500));
}

TEST_F(ScratchTest, AnEngineThatForgetsIsFound) {
  // Every charge is lost at once.
  BentEngine engine(memory_, [](engine::Batch& batch, engine::Group& group) {
    if (batch.operations(group).front().cost > 0)
      batch.operations(group).front().verdict.outcome = Outcome::kAllowed;
  });
  const Finding finding = CheckAtomicity({Go(engine)});
  EXPECT_EQ(finding.status, Status::kFailed);
  EXPECT_EQ(finding.figure, "token_bucket: 400 of 400 admitted, capacity 100");
}

TEST_F(ScratchTest, AnEngineThatRefusesTooMuchIsFound) {
  BentEngine engine(memory_, [](engine::Batch& batch, engine::Group& group) {
    if (batch.operations(group).front().cost > 0)
      batch.operations(group).front().verdict.outcome = Outcome::kDenied;
  });
  EXPECT_EQ(CheckAtomicity({Go(engine)}).status, Status::kFailed);
}

TEST_F(ScratchTest, AnEngineThatDoesNotAnswerIsFound) {
  BentEngine engine(memory_, [](engine::Batch& batch, engine::Group& group) {
    if (batch.operations(group).front().cost == 0) return;
    group.result.state = engine::GroupState::kUnavailable;
    group.result.reason = Reason::kTimeout;
  });
  const RaceResult race = Go(engine);
  EXPECT_EQ(race.unavailable, 400u);
  const Finding finding = CheckAtomicity({race});
  EXPECT_EQ(finding.status, Status::kFailed);
  EXPECT_NE(finding.figure.find("400 unavailable (timeout)"), std::string::npos) << finding.figure;
  const DecisionLatency latency = MeasureDecisions({engine, clock_, Millis(20)}, 10, Seconds(1));
  EXPECT_EQ(latency.unavailable, 10u);
  EXPECT_EQ(latency.answered.count, 0u);
}

TEST_F(ScratchTest, DecisionsAreTimed) {
  const DecisionLatency latency = MeasureDecisions({memory_, clock_, Millis(20)}, 500, Seconds(5));
  EXPECT_EQ(latency.unavailable, 0u);
  EXPECT_EQ(latency.answered.count, 500u);
  EXPECT_LE(latency.answered.p50_us, latency.answered.max_us);
}

TEST_F(ScratchTest, AnOutageIsMeasuredUntilItEnds) {
  static std::atomic<bool> out;
  out = false;
  BentEngine engine(memory_, [](engine::Batch&, engine::Group& group) {
    if (out) group.result.state = engine::GroupState::kUnavailable;
  });
  int looks = 0;
  const Outage outage = WatchOutage(
      {engine, clock_, Millis(20)},
      [&] {
        ++looks;
        out = looks >= 5 && looks < 15;
        return looks > 20;
      },
      Seconds(30));
  EXPECT_TRUE(outage.ended);
  EXPECT_GT(outage.decided, 0u);
  EXPECT_GT(outage.unavailable, 0u);
  EXPECT_GE(outage.longest, Millis(50));
  // One that does not end: the client is given time to ask in it.
  out = false;
  looks = 0;
  const Outage whole = WatchOutage(
      {engine, clock_, Millis(20)},
      [&] {
        out = true;
        return ++looks > 20;
      },
      Seconds(30));
  EXPECT_FALSE(whole.ended);
}

}  // namespace
}  // namespace penstock::checkup
