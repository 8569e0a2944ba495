// Waiting for permits on the memory engine itself: order, few askings, and a crowd at random.
#include <limits>
#include <string>
#include <utility>

#include "base/random.h"
#include "base/test_seed.h"
#include "engine/memory/memory_engine.h"
#include "engine/permit_id.h"
#include "service/decider_fixture.h"

namespace penstock::service {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WaitingInMemory, ManyWaitersAreServedInOrderWithLittleMoreThanOneAskingEach) {
  constexpr uint64_t kWaiters = 2'000;
  constexpr int kPermits = 10;
  ManualClock clock{EngineTime{1'800'000'000'000'000}};
  FakeExecutor executor;
  ManualTimer timer;
  engine::MemoryEngine engine{{}, clock};
  const std::unique_ptr<engine::EngineSession> session = engine.OpenLoop({executor, timer});
  Metrics metrics;
  PolicyStore store{metrics};
  DeciderOptions options;
  options.timer = &timer;
  DeciderImpl decider{engine, *session, executor, clock, store, metrics.AddLoop(), options};
  store.Publish(MakePolicy({MakePermits("in-flight", {"user"}, kPermits)}), *session,
                [](const Result<void>& done) { ASSERT_TRUE(done); });
  executor.RunAll();
  Answers answers;
  Request request;
  request.domain = "api";
  request.attributes = kUser42;
  request.options.max_wait = milliseconds(kMaxWaitMs);
  for (uint64_t i = 0; i < kWaiters; ++i) decider.Submit(request, answers, i);
  decider.Flush();
  executor.RunAll();
  Silent silent;
  for (uint64_t i = 0; i < kWaiters; ++i) {
    ASSERT_TRUE(answers.has(i)) << i << ": nobody who came later was served before";
    ASSERT_TRUE(answers[i].permit.has_value()) << i;
    ASSERT_EQ(answers.size(), std::min(i + kPermits, kWaiters));
    decider.permits().Release(answers[i].permit->id.view(), silent, i);
    decider.permits().Flush();
    executor.RunAll();
  }
  EXPECT_EQ(metrics.Totals().permits_waiting, 0u);
  EXPECT_LE(metrics.Totals().asked_again, kWaiters) << "the refreshes come by the clock";
  EXPECT_EQ(timer.size(), 0u);
}

// Random askers who wait or do not, go, crash or give back, on a clock that the test moves. Judged by what the holders
// themselves may believe: each holds until he gives back or the lease that he was told is over.
class Crowd final : public Receiver, private PermitReceiver {
 public:
  Crowd(DeciderImpl& decider, const Clock& clock) : decider_(decider), clock_(clock) {}

  void Ask(Random& random) {
    Request request;
    request.domain = "api";
    request.attributes = kUser42;
    request.options.weight = random.Between(1, 3);
    request.options.lease = milliseconds(random.Between(100, 3'000));
    request.options.max_wait = milliseconds(random.Below(3) == 0 ? 0 : random.Between(1, 5'000));
    waiting_[++last_] = request.options.weight;
    decider_.Submit(request, *this, last_);
    decider_.Flush();
  }
  void Go(Random& random) {
    if (waiting_.empty()) return;
    const auto one = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(random.Below(waiting_.size())));
    decider_.Cancel(*this, one->first);
    waiting_.erase(one);
  }
  void GiveBack(Random& random) {
    if (held_.empty()) return;
    const size_t i = random.Below(held_.size());
    decider_.permits().Release(held_[i].id.view(), *this, held_[i].until > clock_.Now() ? 1 : 0);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    decider_.permits().Flush();
  }
  int64_t in_use() const {
    int64_t sum = 0;
    for (const Held& held : held_) sum += held.until > clock_.Now() ? held.weight : 0;
    return sum;
  }
  size_t waiting() const { return waiting_.size(); }
  uint64_t granted() const { return granted_; }

 private:
  struct Held {
    PermitText id;
    int64_t weight;
    EngineTime until;
  };
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override {
    const auto found = waiting_.find(token);
    ASSERT_NE(found, waiting_.end()) << "answered twice, or gone";
    const int64_t weight = found->second;
    waiting_.erase(found);
    if (!(*decision)->permit) return;
    ++granted_;
    const PermitGrant& grant = *(*decision)->permit;
    held_.push_back({grant.id, weight, clock_.Now() + Micros{grant.expires_in.count()}});
  }
  // C68: who is within his lease is never told that he has lost.
  void PermitAnswered(uint64_t within, const PermitAnswer& answer) noexcept override {
    EXPECT_EQ(answer.fate == core::PermitFate::kReleased, within == 1);
  }

  DeciderImpl& decider_;
  const Clock& clock_;
  std::map<uint64_t, int64_t> waiting_;  // weight by token
  std::vector<Held> held_;
  uint64_t last_ = 0;
  uint64_t granted_ = 0;
};

TEST(WaitingInMemory, ARandomCrowdNeverHoldsMoreThanThereIsAndAllComesBack) {
  constexpr int64_t kPermits = 5;
  Random random(TestSeed());
  ManualClock clock{EngineTime{1'800'000'000'000'000}};
  FakeExecutor executor;
  ClockTimer timer{clock};
  engine::MemoryEngine engine{{}, clock};
  const std::unique_ptr<engine::EngineSession> session = engine.OpenLoop({executor, timer});
  Metrics metrics;
  PolicyStore store{metrics};
  DeciderOptions options;
  options.timer = &timer;
  DeciderImpl decider{engine, *session, executor, clock, store, metrics.AddLoop(), options};
  store.Publish(MakePolicy({MakePermits("in-flight", {"user"}, kPermits)}), *session,
                [](const Result<void>& done) { ASSERT_TRUE(done); });
  executor.RunAll();
  Crowd crowd(decider, clock);
  const auto pass = [&](Micros by) {
    clock.Advance(by);
    timer.FireDue();
    executor.RunAll();
    ASSERT_LE(crowd.in_use(), kPermits);
  };
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t choice = random.Below(10);
    if (choice < 3) crowd.Ask(random);
    if (choice == 3) crowd.Go(random);
    if (choice >= 4 && choice < 7) crowd.GiveBack(random);
    executor.RunAll();
    ASSERT_LE(crowd.in_use(), kPermits);
    if (choice >= 7) pass(Micros{random.Between(1, 200'000)});
  }
  for (int i = 0; i < 100; ++i) pass(Millis(100));
  EXPECT_EQ(crowd.waiting(), 0u) << "everybody was answered by the end of his wait";
  EXPECT_EQ(metrics.Totals().permits_waiting, 0u);
  EXPECT_GT(crowd.granted(), 500u);
  Request all;
  all.domain = "api";
  all.attributes = kUser42;
  all.options.weight = kPermits;
  Decision decision;
  ASSERT_FALSE(decider.DecideNow(all, decision));
  EXPECT_TRUE(decision.permit.has_value()) << "one lease after the last crash";
}

}  // namespace
}  // namespace penstock::service
