// What is the memory engine's own about permits: bounds, evictions, wake-ups, the snapshot. The contract is in
// tests/conformance.
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/snapshot_format.h"
#include "engine/memory/testing.h"
#include "engine/memory/wait_queue.h"
#include "engine/permit_id.h"

namespace penstock::engine {
namespace {

using core::PermitFate;
using testing::MakeLimit;
using testing::Rate;

constexpr EngineTime kStart{1'800'057'600'000'000};
constexpr Micros kLease = Seconds(10);

class Tasks final : public Executor, public Timer {
 public:
  void Post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  Id Schedule(SteadyTime, std::function<void()>) override { return 0; }
  void Cancel(Id) override {}
  size_t Run() {
    size_t count = 0;
    for (; !tasks_.empty(); ++count) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return count;
  }

 private:
  std::deque<std::function<void()>> tasks_;
};

// One session, which hears of wake-ups.
class Loop final : public Sink, public PermitSink, public PermitWaker {
 public:
  explicit Loop(MemoryEngine& engine) : session(engine.OpenLoop({tasks, tasks})) { session->SetWaker(this); }

  core::Verdict Ask(const core::Limit& limit, uint64_t id, Micros queue_for = {}, std::string_view key = "k",
                    std::string_view request_id = {}, std::string_view holder = {}) {
    const core::PermitAsk ask{.id = {id, id}, .holder = holder, .queue_for = queue_for};
    Batch batch;
    Group& group = batch.AddGroup();
    group.options.permit = &ask;
    group.request_id = request_id;
    batch.AddOperation(limit, std::span(&key, 1)).cost = 1;
    session->Decide(batch, SteadyTime{}, *this);
    permit = GrantedPermit(batch.operations(), result);
    return batch.operations()[0].verdict;
  }
  Outcome Acquire(const core::Limit& limit, uint64_t id, std::string_view key = "k") {
    return Ask(limit, id, {}, key).outcome;
  }
  PermitFate Call(PermitVerb verb, const PermitId& which) {
    PermitCall call;
    call.verb = verb;
    call.permit = which;
    session->CallPermits({&call, 1}, SteadyTime{}, *this);
    return call.fate;
  }
  HolderList Holders(const core::Limit& limit) {
    HolderList list;
    const std::string_view key = "k";
    Batch batch;
    Group& group = batch.AddGroup();
    group.mode = Mode::kHolders;
    group.listing = &list;
    batch.AddOperation(limit, std::span(&key, 1));
    session->Decide(batch, SteadyTime{}, *this);
    return list;
  }

  void Decided(Batch&, Group& group) noexcept override { result = group.result; }
  void Called(PermitCall&) noexcept override {}
  void Woken(const Hash128& permit_id) noexcept override { woken.push_back(permit_id.low); }

  Tasks tasks;
  std::unique_ptr<EngineSession> session;
  GroupResult result;
  PermitId permit;
  std::vector<uint64_t> woken;
};

class MemoryPermitsTest : public ::testing::Test {
 protected:
  MemoryPermitsTest() : path_(::testing::TempDir() + "penstock_permits_" + std::to_string(getpid())) {
    Open({.shards = 4});
  }
  ~MemoryPermitsTest() override { unlink(path_.c_str()); }

  void Open(const MemoryOptions& options) {
    loop_.reset();
    engine_.emplace(options, clock_);
    loop_.emplace(*engine_);
  }
  std::unique_ptr<core::Limit> Semaphore(int64_t permits, Micros lease = kLease) {
    return MakeLimit(*loop_->session, "n", Rate(core::Algorithm::kPermits, permits, lease));
  }
  std::string Saved() {
    EXPECT_TRUE(engine_->SaveSnapshot(path_));
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ManualClock clock_{kStart};
  std::optional<MemoryEngine> engine_;
  std::optional<Loop> loop_;
  const std::string path_;
};

TEST_F(MemoryPermitsTest, ABucketIsEvictedOnceNobodyCanAskForItsHoldersAnyMore) {
  Open({.max_keys = 1, .shards = 1});
  const auto limit = Semaphore(1);
  ASSERT_EQ(loop_->Acquire(*limit, 1, "a"), Outcome::kAllowed);
  const PermitId held = loop_->permit;
  clock_.Advance(kLease * 2 - Micros{1});
  EXPECT_EQ(loop_->Acquire(*limit, 2, "b"), Outcome::kUnavailable);
  EXPECT_EQ(loop_->result.reason, Reason::kFull);
  EXPECT_EQ(loop_->Call(PermitVerb::kRelease, held), PermitFate::kExpired);
  clock_.Advance({1});
  EXPECT_EQ(loop_->Acquire(*limit, 2, "b"), Outcome::kAllowed);
  EXPECT_EQ(loop_->Call(PermitVerb::kRelease, held), PermitFate::kUnknown);
  EXPECT_EQ(engine_->stats().keys, 1u);
}

TEST_F(MemoryPermitsTest, ARenewedBucketStays) {
  Open({.max_keys = 1, .shards = 1});
  const auto limit = Semaphore(1);
  ASSERT_EQ(loop_->Acquire(*limit, 1, "a"), Outcome::kAllowed);
  const PermitId held = loop_->permit;
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(Seconds(9));
    EXPECT_EQ(loop_->Call(PermitVerb::kRenew, held), PermitFate::kRenewed);
    EXPECT_EQ(loop_->Acquire(*limit, 2, "b"), Outcome::kUnavailable);
  }
}

// C73: fences run ahead of a clock that stands.
TEST_F(MemoryPermitsTest, ABucketWhoseLastFenceIsAheadOfTheClockIsNotForgotten) {
  Open({.max_keys = 1, .shards = 1});
  const auto limit = Semaphore(1);
  int64_t last = 0;
  for (uint64_t id = 1; id <= 100; ++id) {
    ASSERT_EQ(loop_->Acquire(*limit, id), Outcome::kAllowed);
    EXPECT_GT(loop_->permit.places[0].fence, last);
    last = loop_->permit.places[0].fence;
    EXPECT_EQ(loop_->Call(PermitVerb::kRelease, loop_->permit), PermitFate::kReleased);
  }
  EXPECT_EQ(last, kStart.us + 99);
  EXPECT_EQ(loop_->Acquire(*limit, 1, "other"), Outcome::kUnavailable);
  clock_.Set({last + 1});
  EXPECT_EQ(loop_->Acquire(*limit, 1, "other"), Outcome::kAllowed);
}

TEST_F(MemoryPermitsTest, ABucketWithAQueueIsNotEvicted) {
  Open({.max_keys = 1, .shards = 1});
  const auto limit = Semaphore(1, Seconds(1));
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  EXPECT_TRUE(loop_->Ask(*limit, 2, Seconds(60)).queued);
  clock_.Advance(Seconds(59));
  EXPECT_EQ(loop_->Acquire(*limit, 3, "other"), Outcome::kUnavailable);
  clock_.Advance(Seconds(1));
  EXPECT_EQ(loop_->Acquire(*limit, 3, "other"), Outcome::kAllowed);
}

TEST_F(MemoryPermitsTest, AQueueHasABoundBeyondWhichOneIsRefusedWithoutAPlace) {
  const auto limit = Semaphore(1, Seconds(100));
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  for (uint64_t i = 0; i < WaitQueue::kMaxWaiters; ++i) {
    ASSERT_TRUE(loop_->Ask(*limit, 2 + i, Seconds(60)).queued);
  }
  const core::Verdict refused = loop_->Ask(*limit, 1'000'000, Seconds(60));
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_FALSE(refused.queued);
  EXPECT_FALSE(loop_->result.queued);
  EXPECT_TRUE(loop_->Ask(*limit, 2 + 77, Seconds(60)).queued) << "in his old place";
  EXPECT_EQ(loop_->Holders(*limit).waiting, static_cast<int64_t>(WaitQueue::kMaxWaiters));
  clock_.Advance(Seconds(60));
  EXPECT_TRUE(loop_->Ask(*limit, 1'000'000, Seconds(60)).queued);
  EXPECT_EQ(loop_->Holders(*limit).waiting, 1);
}

// What a snapshot has is older than the last grants: a start counts, with it and without.
TEST_F(MemoryPermitsTest, AStrictLimitGrantsNothingForALeaseAfterTheStart) {
  auto limit = Semaphore(2);
  limit->strict = true;
  EXPECT_EQ(loop_->Ask(*limit, 1).retry_after, kLease);
  clock_.Advance(kLease);
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  const PermitId held = loop_->permit;
  EXPECT_TRUE(engine_->SaveSnapshot(path_));
  ASSERT_EQ(loop_->Acquire(*limit, 2), Outcome::kAllowed) << "after the last snapshot";
  clock_.Advance(Seconds(3));
  loop_.reset();
  engine_.emplace(MemoryOptions{.shards = 4}, clock_);
  ASSERT_TRUE(engine_->LoadSnapshot(path_));
  loop_.emplace(*engine_);
  limit = Semaphore(2);
  limit->strict = true;
  EXPECT_EQ(loop_->Ask(*limit, 3).retry_after, kLease);
  EXPECT_EQ(loop_->Call(PermitVerb::kRenew, held), PermitFate::kRenewed) << "that goes on";
  clock_.Advance(kLease - Millis(5));
  EXPECT_EQ(loop_->Ask(*limit, 3).retry_after, Millis(5));
  clock_.Advance(Millis(5));
  EXPECT_EQ(loop_->Acquire(*limit, 3), Outcome::kAllowed);
  limit->strict = false;
  EXPECT_EQ(loop_->Acquire(*limit, 4), Outcome::kAllowed);
}

TEST_F(MemoryPermitsTest, WhoWaitsForAStrictLimitAfterTheStartStandsInItsQueueAndIsNotWokenInVain) {
  const auto limit = Semaphore(2);
  limit->strict = true;
  for (uint64_t id = 1; id <= 2; ++id) {
    EXPECT_TRUE(loop_->Ask(*limit, id, kLease * 2).queued);
    EXPECT_TRUE(loop_->result.queued);
    EXPECT_EQ(loop_->result.ask_again_after, Seconds(1));
  }
  EXPECT_EQ(loop_->tasks.Run(), 0u);
  EXPECT_EQ(loop_->Holders(*limit).waiting, 2);
  clock_.Advance(kLease - Millis(3));
  EXPECT_TRUE(loop_->Ask(*limit, 1, Seconds(60)).queued);
  EXPECT_EQ(loop_->result.ask_again_after, Millis(3));
  clock_.Advance(Millis(3));
  EXPECT_TRUE(loop_->Ask(*limit, 2, Seconds(60)).queued) << "behind the first";
  EXPECT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  EXPECT_EQ(loop_->Acquire(*limit, 2), Outcome::kAllowed);
}

TEST_F(MemoryPermitsTest, ALimitThatAsksForReplicasIsNotBound) {
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "d";
  limit->name = "n";
  limit->params = *core::CompileRate(Rate(core::Algorithm::kPermits, 1, kLease));
  limit->replicas = 1;
  core::Limit* limits[] = {limit.get()};
  const Result<void> bound = loop_->session->Bind(limits);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().message, "d/n: replicas: the memory engine has none");
}

TEST_F(MemoryPermitsTest, AWakeUpIsOneTaskOfTheWaitersOwnLoopAndComesOnceAnAsk) {
  const auto limit = Semaphore(2);
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  const PermitId first = loop_->permit;
  ASSERT_EQ(loop_->Acquire(*limit, 2), Outcome::kAllowed);
  const PermitId second = loop_->permit;
  Loop waiter(*engine_);
  EXPECT_TRUE(waiter.Ask(*limit, 3, Seconds(60)).queued);
  EXPECT_EQ(waiter.tasks.Run(), 0u);
  loop_->Call(PermitVerb::kRelease, first);
  loop_->Call(PermitVerb::kRelease, second);
  EXPECT_TRUE(waiter.woken.empty()) << "never inside another call";
  EXPECT_EQ(waiter.tasks.Run(), 1u);
  EXPECT_EQ(waiter.woken, std::vector<uint64_t>{3});
  EXPECT_EQ(loop_->tasks.Run(), 0u);
  EXPECT_EQ(waiter.Ask(*limit, 3, Seconds(60)).outcome, Outcome::kAllowed);
}

TEST_F(MemoryPermitsTest, TheHeadAsksAgainAtTheNearestExpiryAndThoseBehindHimRarely) {
  const auto limit = Semaphore(1, Millis(300));
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  for (const uint64_t id : {2, 3, 2}) {
    EXPECT_TRUE(loop_->Ask(*limit, id, Seconds(60)).queued);
    EXPECT_EQ(loop_->result.ask_again_after, id == 2 ? Millis(300) : Seconds(10));
  }
  clock_.Advance(Millis(300));
  EXPECT_EQ(loop_->Ask(*limit, 2, Seconds(60)).outcome, Outcome::kAllowed);
  clock_.Advance(Millis(300));
  EXPECT_EQ(loop_->Ask(*limit, 4, Seconds(60)).outcome, Outcome::kDenied) << "3 is before him";
  EXPECT_EQ(loop_->tasks.Run(), 1u);
  EXPECT_EQ(loop_->woken, std::vector<uint64_t>{3});
}

TEST_F(MemoryPermitsTest, WhoGoesLeavesAllQueuesAndTheNextIsWoken) {
  const auto limit = Semaphore(2);
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  const PermitId held = loop_->permit;
  ASSERT_EQ(loop_->Acquire(*limit, 2), Outcome::kAllowed);
  std::optional<Loop> leaving(*engine_);
  for (uint64_t id = 3; id < 10; ++id) EXPECT_TRUE(leaving->Ask(*limit, id, Seconds(60)).queued);
  EXPECT_TRUE(loop_->Ask(*limit, 10, Seconds(60)).queued);
  loop_->Call(PermitVerb::kRelease, held);
  leaving->session->Close();
  EXPECT_EQ(leaving->tasks.Run(), 1u) << "on its way before";
  EXPECT_TRUE(leaving->woken.empty());
  leaving.reset();
  EXPECT_EQ(loop_->Holders(*limit).waiting, 1);
  loop_->tasks.Run();
  EXPECT_EQ(loop_->woken, std::vector<uint64_t>{10});
}

// Of two loops, as two nodes' would be: each asks when he is woken, and after the time he was told at the latest.
TEST_F(MemoryPermitsTest, TenThousandWaitersAreServedInOrderWithFewAsks) {
  constexpr uint64_t kWaiters = 10'000;
  constexpr Micros kHeld = Millis(20);
  struct Event {
    EngineTime at;
    uint64_t id;
    bool release;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  const auto limit = Semaphore(10);
  Loop other(*engine_);
  Loop* const loops[] = {&*loop_, &other};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<EngineTime> due(kWaiters + 1);  // of the next ask; an earlier event of his is void
  std::vector<PermitId> held(kWaiters + 1);
  uint64_t asks = 0;
  uint64_t granted = 0;
  const auto ask = [&](uint64_t id) {
    ++asks;
    Loop& loop = *loops[id % 2];
    if (loop.Ask(*limit, id, Seconds(60)).outcome == Outcome::kAllowed) {
      ASSERT_EQ(id, ++granted);
      held[id] = loop.permit;
      events.push({clock_.Now() + kHeld, id, true});
    } else {
      due[id] = clock_.Now() + loop.result.ask_again_after;
      events.push({due[id], id, false});
    }
  };
  const auto wake = [&] {
    for (bool more = true; more;) {
      more = false;
      for (Loop* const loop : loops) {
        loop->tasks.Run();
        for (const uint64_t id : std::exchange(loop->woken, {})) {
          more = true;
          ask(id);
        }
      }
    }
  };
  for (uint64_t id = 1; id <= kWaiters; ++id) ask(id);
  while (!events.empty() && !HasFatalFailure()) {
    const Event event = events.top();
    events.pop();
    clock_.Set(event.at);
    if (event.release) {
      EXPECT_EQ(loops[event.id % 2]->Call(PermitVerb::kRelease, held[event.id]), PermitFate::kReleased);
    } else if (held[event.id].size == 0 && due[event.id] == event.at) {
      ask(event.id);
    }
    wake();
  }
  EXPECT_EQ(granted, kWaiters);
  EXPECT_LT(asks, 3 * kWaiters);
  EXPECT_EQ(clock_.Now(), kStart + kHeld * (kWaiters / 10)) << "no permit lay idle";
}

TEST_F(MemoryPermitsTest, HoldersComeBackWithASnapshotAndTheirQueueDoesNot) {
  auto limit = Semaphore(3);
  ASSERT_EQ(loop_->Ask(*limit, 1, {}, "k", "an-id", "worker").outcome, Outcome::kAllowed);
  const PermitId held = loop_->permit;
  ASSERT_EQ(loop_->Acquire(*limit, 2), Outcome::kAllowed);
  const PermitId late = loop_->permit;
  clock_.Advance(Seconds(5));
  ASSERT_EQ(loop_->Call(PermitVerb::kRenew, held), PermitFate::kRenewed);
  ASSERT_EQ(loop_->Acquire(*limit, 3), Outcome::kAllowed);
  EXPECT_TRUE(loop_->Ask(*limit, 4, Seconds(60)).queued);
  ASSERT_TRUE(engine_->SaveSnapshot(path_));
  clock_.Advance(Seconds(6));
  Open({.shards = 16});
  ASSERT_TRUE(engine_->LoadSnapshot(path_));
  limit = Semaphore(3);
  const HolderList list = loop_->Holders(*limit);
  EXPECT_EQ(list.in_use, 2);
  EXPECT_EQ(list.waiting, 0);
  ASSERT_EQ(list.entries.size(), 2u);
  for (const HolderList::Entry& entry : list.entries) {
    EXPECT_EQ(entry.expires_in, Seconds(4));
    EXPECT_EQ(entry.holder, entry.id.low == 1 ? "worker" : "");
  }
  EXPECT_EQ(loop_->Call(PermitVerb::kRelease, late), PermitFate::kExpired);
  EXPECT_EQ(loop_->Ask(*limit, 9, {}, "k", "an-id").outcome, Outcome::kAllowed);
  EXPECT_TRUE(loop_->result.replayed);
  EXPECT_EQ(loop_->permit, held);
  EXPECT_EQ(loop_->Call(PermitVerb::kRelease, held), PermitFate::kReleased);
  ASSERT_EQ(loop_->Acquire(*limit, 5), Outcome::kAllowed);
}

TEST_F(MemoryPermitsTest, AFenceThatIsAheadOfTheClockComesBackThoughNobodyHolds) {
  const auto limit = Semaphore(1);
  for (uint64_t id = 1; id <= 10; ++id) {
    ASSERT_EQ(loop_->Acquire(*limit, id), Outcome::kAllowed);
    loop_->Call(PermitVerb::kRelease, loop_->permit);
  }
  const int64_t last = loop_->permit.places[0].fence;
  ASSERT_TRUE(engine_->SaveSnapshot(path_));
  Open({});
  ASSERT_TRUE(engine_->LoadSnapshot(path_));
  ASSERT_EQ(loop_->Acquire(*Semaphore(1), 11), Outcome::kAllowed);
  EXPECT_GT(loop_->permit.places[0].fence, last);
}

TEST_F(MemoryPermitsTest, MoreHoldersThanAnEntryOfASnapshotHasComeBack) {
  constexpr int64_t kMany = 10'000;
  static_assert(kMany > 2 * snapshot::kMaxHoldersAnEntry);
  auto limit = Semaphore(kMany);
  const std::string name(200, 'n');  // longer than is kept
  for (uint64_t id = 1; id <= kMany; ++id) {
    ASSERT_EQ(loop_->Ask(*limit, id, {}, "k", {}, name).outcome, Outcome::kAllowed);
  }
  ASSERT_TRUE(engine_->SaveSnapshot(path_));
  Open({});
  ASSERT_TRUE(engine_->LoadSnapshot(path_));
  limit = Semaphore(kMany);
  EXPECT_EQ(loop_->Holders(*limit).in_use, kMany);
  EXPECT_EQ(loop_->Acquire(*limit, kMany + 1), Outcome::kDenied);
}

TEST_F(MemoryPermitsTest, AClockThatWentBackMakesNoLeaseLongerThanTheLimits) {
  auto limit = Semaphore(1);
  ASSERT_EQ(loop_->Acquire(*limit, 1), Outcome::kAllowed);
  ASSERT_TRUE(engine_->SaveSnapshot(path_));
  clock_.Set(kStart - Seconds(3'600));
  Open({});
  ASSERT_TRUE(engine_->LoadSnapshot(path_));
  limit = Semaphore(1);
  EXPECT_EQ(loop_->Ask(*limit, 2).retry_after, kLease);
}

TEST_F(MemoryPermitsTest, DamagedHoldersAreFoundAndLayout2IsStillRead) {
  const auto rate = MakeLimit(*loop_->session, "r", Rate(core::Algorithm::kTokenBucket, 10, Seconds(60)));
  loop_->Ask(*rate, 1);
  std::string older = Saved();
  older[snapshot::kMagic.size()] = 2;
  const uint64_t sum = Checksum64(std::string_view(older).substr(0, snapshot::kHeadBytes - sizeof sum));
  std::memcpy(&older[snapshot::kHeadBytes - sizeof sum], &sum, sizeof sum);
  EXPECT_TRUE(MemoryEngine({}, clock_).LoadSnapshotBytes(older, "older"));
  const auto limit = Semaphore(3);
  for (uint64_t id = 1; id <= 3; ++id) loop_->Ask(*limit, id, {}, "k", "id" + std::to_string(id), "name");
  const std::string good = Saved();
  EXPECT_TRUE(MemoryEngine({}, clock_).LoadSnapshotBytes(good, "good"));
  for (size_t at = snapshot::kHeadBytes; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    ASSERT_FALSE(MemoryEngine({}, clock_).LoadSnapshotBytes(bad, "bad")) << at;
  }
}

}  // namespace
}  // namespace penstock::engine
