// What is the memory engine's own: bounds, evictions, what it stores. The contract is in tests/conformance.
#include "engine/memory/memory_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "engine/memory/testing.h"

namespace penstock::engine {
namespace {

using core::Algorithm;
using testing::MakeLimit;
using testing::OneAtATime;
using testing::Rate;

constexpr EngineTime kStart{1'800'057'600'000'000};

class MemoryEngineTest : public ::testing::Test {
 protected:
  void Open(const MemoryOptions& options) {
    session_.reset();
    engine_ = std::make_unique<MemoryEngine>(options, clock_);
    session_ = engine_->OpenSession();
    one_ = std::make_unique<OneAtATime>(*session_);
  }
  Outcome Check(const core::Limit& limit, int key) { return one_->Check(limit, std::to_string(key)).outcome; }

  ManualClock clock_{kStart};
  std::unique_ptr<MemoryEngine> engine_;
  std::unique_ptr<EngineSession> session_;
  std::unique_ptr<OneAtATime> one_;
};

TEST_F(MemoryEngineTest, AFullTableRefusesNewKeysAndSaysWhy) {
  Open({.max_keys = 10, .shards = 4});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 5, Seconds(60)));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Check(*limit, i), Outcome::kAllowed);
  EXPECT_EQ(Check(*limit, 10), Outcome::kUnavailable);
  EXPECT_EQ(one_->result.state, GroupState::kUnavailable);
  EXPECT_EQ(one_->result.reason, Reason::kFull);
  EXPECT_EQ(Check(*limit, 3), Outcome::kAllowed);                       // those that are there go on
  EXPECT_EQ(one_->Check(*limit, "new", 0).outcome, Outcome::kAllowed);  // a peek needs no room
  EXPECT_EQ(one_->Check(*limit, "new", 6).outcome, Outcome::kNever);
  EXPECT_EQ(engine_->stats().keys, 10u);
  EXPECT_EQ(engine_->stats().max_keys, 10u);
  EXPECT_EQ(engine_->stats().refused_full, 1u);
}

TEST_F(MemoryEngineTest, OnlyIdleKeysMakeRoom) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    Open({.max_keys = 10, .shards = 4});
    const auto fast = MakeLimit(*session_, "fast", Rate(algorithm, 5, Seconds(5)));
    const auto slow = MakeLimit(*session_, "slow", Rate(algorithm, 5, Seconds(500)));
    for (int i = 0; i < 4; ++i) Check(*slow, i);
    for (int i = 0; i < 6; ++i) Check(*fast, i);
    EXPECT_EQ(Check(*slow, 100), Outcome::kUnavailable);
    clock_.Advance(Seconds(10));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(Check(*slow, 100 + i), Outcome::kAllowed);
    EXPECT_EQ(Check(*slow, 200), Outcome::kUnavailable);
    EXPECT_EQ(engine_->stats().evictions, 6u);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(one_->Check(*slow, std::to_string(i), 0).remaining, 4);
    clock_.Advance(Seconds(1'000));  // all
    for (int i = 0; i < 10; ++i) EXPECT_EQ(Check(*fast, 1'000 + i), Outcome::kAllowed);
    EXPECT_EQ(engine_->stats().evictions, 16u);
    EXPECT_EQ(engine_->stats().keys, 10u);
  }
}

TEST_F(MemoryEngineTest, AKeyThatIsUsedAgainBeforeItIsIdleStays) {
  Open({.max_keys = 2, .shards = 1});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1, Seconds(10)));
  Check(*limit, 0);
  Check(*limit, 1);
  clock_.Advance(Seconds(10));
  EXPECT_EQ(Check(*limit, 0), Outcome::kAllowed);
  EXPECT_EQ(Check(*limit, 2), Outcome::kAllowed);  // takes the place of 1
  EXPECT_EQ(Check(*limit, 3), Outcome::kUnavailable);
  EXPECT_EQ(Check(*limit, 0), Outcome::kDenied);
}

TEST_F(MemoryEngineTest, IdleKeysAreDroppedBeforeATableGrows) {
  Open({.shards = 1});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1, Seconds(1)));
  for (int i = 0; i < 100'000; ++i) {
    Check(*limit, i);
    clock_.Advance(Millis(10));  // 100 keys are in use at a time
  }
  EXPECT_LE(engine_->stats().keys, 500u);
  EXPECT_GE(engine_->stats().evictions, 99'500u);
}

TEST_F(MemoryEngineTest, AGroupThatFindsNoRoomChargesNothingAndAShadowGivesWay) {
  Open({.max_keys = 3, .shards = 2});
  const auto a = MakeLimit(*session_, "a", Rate(Algorithm::kTokenBucket, 5, Seconds(60)));
  const auto b = MakeLimit(*session_, "b", Rate(Algorithm::kSlidingLog, 5, Seconds(60)));
  auto shadow = MakeLimit(*session_, "s", Rate(Algorithm::kSlidingWindow, 5, Seconds(60)));
  shadow->shadow = true;
  const auto ask = [&](std::vector<const core::Limit*> limits, std::string_view key) {
    Batch batch;
    batch.AddGroup();
    for (const core::Limit* limit : limits) batch.AddOperation(*limit, std::span(&key, 1)).cost = 1;
    session_->Decide(batch, SteadyTime{}, *one_);
    return std::vector<core::Operation>(batch.operations().begin(), batch.operations().end());
  };
  ask({a.get()}, "x");
  ask({a.get()}, "y");
  EXPECT_EQ(ask({a.get(), b.get()}, "z")[0].verdict.outcome, Outcome::kUnavailable);
  EXPECT_EQ(one_->result.reason, Reason::kFull);
  EXPECT_EQ(engine_->stats().keys, 2u);
  EXPECT_EQ(ask({a.get(), b.get()}, "x")[1].verdict.outcome, Outcome::kAllowed);  // one new key: fits
  EXPECT_EQ(engine_->stats().keys, 3u);
  const auto operations = ask({a.get(), shadow.get()}, "x");
  EXPECT_EQ(one_->result.state, GroupState::kDecided);
  EXPECT_EQ(operations[0].verdict.outcome, Outcome::kAllowed);
  EXPECT_EQ(operations[0].verdict.remaining, 2);
  EXPECT_EQ(operations[1].verdict.outcome, Outcome::kUnavailable);
}

TEST_F(MemoryEngineTest, TheBoundHoldsExactlyWhileManyThreadsInsert) {
  constexpr uint64_t kMost = 5'000;
  Open({.max_keys = kMost, .shards = 16});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1, Seconds(86'400)));
  std::atomic<uint64_t> admitted{0};
  std::atomic<bool> above{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      const auto session = engine_->OpenSession();
      OneAtATime one(*session);
      for (int i = 0; i < 1'000; ++i) {
        admitted += one.Check(*limit, std::to_string(t * 1'000 + i)).outcome == Outcome::kAllowed;
        if (i % 100 == 0 && engine_->stats().keys > kMost) above = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, kMost);
  EXPECT_EQ(engine_->stats().keys, kMost);
  EXPECT_FALSE(above);
}

TEST_F(MemoryEngineTest, ThreadsThatFillEvictSaveAndReadDoNotDisturbEachOther) {
  Open({.max_keys = 500, .shards = 8});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1, Millis(1)));
  const auto log = MakeLimit(*session_, "log", Rate(Algorithm::kSlidingLog, 3, Millis(2)));
  const std::string path = ::testing::TempDir() + "penstock_busy_snapshot";
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto session = engine_->OpenSession();
      OneAtATime one(*session);
      for (int i = 0; i < 3'000; ++i) {
        one.Check(t % 2 == 0 ? *limit : *log, std::to_string((t * 7'919 + i) % 2'000));
        if (t == 0) clock_.Advance({20});
      }
    });
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine_->SaveSnapshot(path));
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(engine_->stats().keys, 500u);
  EXPECT_GT(engine_->stats().evictions, 0u);
}

TEST_F(MemoryEngineTest, AnAdHocLimitForWhichThereAreNoParametersLeftIsUnavailable) {
  Open({.max_params = 2});
  std::vector<std::unique_ptr<core::Limit>> limits;
  for (int i = 0; i < 3; ++i) {
    limits.push_back(std::make_unique<core::Limit>());
    limits.back()->identity = "adhoc";
    limits.back()->params = *core::CompileRate(Rate(Algorithm::kTokenBucket, i + 1, Seconds(60)));
    EXPECT_EQ(session_->BindAdHoc(*limits.back()), i < 2);
  }
  EXPECT_EQ(one_->Check(*limits[1], "k").outcome, Outcome::kAllowed);
  EXPECT_EQ(engine_->stats().refused_full, 0u);
  EXPECT_EQ(one_->Check(*limits[2], "k").outcome, Outcome::kUnavailable);
  EXPECT_EQ(one_->result.reason, Reason::kFull);
  EXPECT_EQ(engine_->stats().refused_full, 1u);
  EXPECT_EQ(one_->Check(*limits[2], "k", 1, "id").outcome, Outcome::kUnavailable);
  EXPECT_EQ(engine_->stats().refused_full, 2u);
  limits.erase(limits.begin());  // its place is given to whoever asks next
  EXPECT_TRUE(session_->BindAdHoc(*limits.back()));
  EXPECT_EQ(one_->Check(*limits.back(), "k").outcome, Outcome::kAllowed);
}

TEST_F(MemoryEngineTest, RequestIdsThatFindNoRoomAreDecidedWithoutAndSaySo) {
  Open({.max_request_verdicts = 64});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1'000, Seconds(60)));
  int kept = 0;
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(one_->Check(*limit, "k", 1, "id" + std::to_string(i)).outcome, Outcome::kAllowed);
    kept += one_->result.replayable;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LE(kept, 64);
  EXPECT_EQ(engine_->stats().request_ids, static_cast<uint64_t>(kept));
}

TEST_F(MemoryEngineTest, APolicyMayOutliveItsEngine) {
  Open({});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1, Seconds(60)));
  one_.reset();
  session_.reset();
  engine_.reset();
  EXPECT_NE(limit->binding, nullptr);
}

TEST_F(MemoryEngineTest, AChargeThatIsHeldAtTheLargestNumberIsCountedInASettleToo) {
  Open({});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 1, Seconds(86'400)));
  EXPECT_EQ(one_->Check(*limit, "k", 1, "id").outcome, Outcome::kAllowed);
  EXPECT_EQ(engine_->stats().saturated, 0u);
  Batch batch;
  Group& group = batch.AddGroup();
  group.mode = Mode::kSettle;
  group.domain = "d";
  group.request_id = "id";
  const std::string_view key = "k";
  batch.AddOperation(*limit, std::span(&key, 1)).cost = 2'147'483'647;
  session_->Decide(batch, SteadyTime{}, *one_);
  EXPECT_EQ(batch.groups()[0].result.state, GroupState::kDecided);
  EXPECT_TRUE(batch.operations()[0].verdict.saturated);
  EXPECT_EQ(engine_->stats().saturated, 1u);
}

TEST_F(MemoryEngineTest, HoldsPermits) {
  Open({});
  core::LimitParams params;
  params.algorithm = Algorithm::kPermits;
  EXPECT_TRUE(engine_->CanHold(params));
  EXPECT_TRUE(engine_->CanHoldPermits());
  EXPECT_EQ(engine_->name(), "memory");
}

TEST_F(MemoryEngineTest, AnAdjustmentChargesTheWindowThatItNamesOrNone) {
  Open({});
  const auto limit = MakeLimit(*session_, "l", Rate(Algorithm::kFixedWindow, 5, Seconds(60)));
  const auto adjust = [&](int64_t cost, EngineTime window) {
    Batch batch;
    batch.AddGroup().mode = Mode::kAdjust;
    const std::string_view key = "k";
    core::Operation& operation = batch.AddOperation(*limit, std::span(&key, 1));
    operation.cost = cost;
    operation.charge = {.window = window};
    session_->Decide(batch, SteadyTime{}, *one_);
    EXPECT_EQ(one_->result.state, GroupState::kDecided);
    return batch.operations()[0].edit.state;
  };
  const EngineTime end = kStart + Seconds(60);
  EXPECT_EQ(adjust(3, end), (core::BucketState{end, 3, 0}));
  EXPECT_EQ(one_->Check(*limit, "k", 0).remaining, 2);
  EXPECT_EQ(adjust(9, end), (core::BucketState{end, 12, 0}));  // by force
  clock_.Advance(Seconds(60));
  EXPECT_EQ(adjust(4, end).value, 0);
  EXPECT_EQ(one_->Check(*limit, "k", 0).remaining, 5);
}

TEST_F(MemoryEngineTest, AnAdjustmentUnderOldParametersOrWithoutACalendarsEdgesIsStale) {
  Open({});
  const auto old = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 5, Seconds(60)));
  clock_.Advance(Seconds(1));
  const auto newer = MakeLimit(*session_, "l", Rate(Algorithm::kTokenBucket, 6, Seconds(60)));
  EXPECT_EQ(one_->Check(*newer, "k").remaining, 5);
  core::RateSpec monthly = Rate(Algorithm::kFixedWindow, 5, {});
  monthly.window = core::WindowKind::kMonth;
  const auto calendar = MakeLimit(*session_, "m", monthly);
  const std::string_view key = "k";
  for (const core::Limit* limit : {old.get(), calendar.get()}) {
    Batch batch;
    batch.AddGroup().mode = Mode::kAdjust;
    batch.AddOperation(*limit, std::span(&key, 1)).cost = 1;
    session_->Decide(batch, SteadyTime{}, *one_);
    EXPECT_EQ(one_->result.state, limit == old.get() ? GroupState::kStale : GroupState::kStaleClock);
  }
  EXPECT_EQ(one_->Check(*newer, "k", 0).remaining, 5);
}

}  // namespace
}  // namespace penstock::engine
