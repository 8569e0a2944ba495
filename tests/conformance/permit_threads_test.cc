// Many threads that hold, renew, give back, wait and crash. The judge is what each holder knows himself: the deadline he
// was told and what he gave back.
#include <atomic>
#include <barrier>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "core/permits.h"
#include "permit_fixture.h"

namespace penstock::conformance {
namespace {

constexpr int kThreads = 64;
constexpr int64_t kPermits = 50;
constexpr Micros kModelTime = kMinute * 10;
constexpr Micros kShortLease = Seconds(8);

class PermitThreads : public PermitsTest {};
INSTANTIATE_TEST_SUITE_P(Engines, PermitThreads, testing::ValuesIn(EngineFactories()), EngineName);

// One of the holders' processes. The clock stands while it works.
class Process {
 public:
  Process(TestEngine& engine, const core::Limit& limit, uint64_t number, uint64_t seed,
          std::atomic<int64_t>& held)
      : engine_(engine), limit_(limit), number_(number), random_(seed), held_(held), now_(engine.now()) {}

  // Before the others work: what has expired counts no more.
  void Count(EngineTime now) {
    now_ = now;
    for (auto* const permits : {&mine_, &lost_}) {
      std::erase_if(*permits, [&](const Mine& permit) {
        const bool expired = permit.deadline <= now;
        if (expired && permits == &mine_) late_.push_back(permit);
        if (expired) held_ -= permit.weight;
        return expired;
      });
    }
  }
  void Work() {
    if (client_ == nullptr) client_ = std::make_unique<Client>(engine_);
    for (int i = 0; i < 3; ++i) Step();
  }
  // Nothing of the process is left but what it held.
  void Crash() {
    lost_.insert(lost_.end(), mine_.begin(), mine_.end());
    mine_.clear();
    late_.clear();
    waiting_.reset();
    client_.reset();
  }

 private:
  struct Mine {
    engine::PermitId permit;
    EngineTime deadline;
    int64_t weight = 1;
  };

  void Step() {
    const uint64_t what = random_.Below(20);
    if (what == 0) return Crash(), Work();
    if (!late_.empty() && what < 4) return Late();
    if (what < 11) return Acquire();
    if (mine_.empty()) return;
    const size_t pick = random_.Below(mine_.size());
    if (what < 15) {
      EXPECT_EQ(client_->Renew(mine_[pick].permit), core::PermitFate::kRenewed) << "a false loss";
      mine_[pick].deadline = now_ + kShortLease;
      return;
    }
    held_ -= mine_[pick].weight;  // first, so that nobody is counted twice
    EXPECT_EQ(client_->Release(mine_[pick].permit), core::PermitFate::kReleased) << "somebody else's touch";
    mine_.erase(mine_.begin() + static_cast<ptrdiff_t>(pick));
  }
  void Acquire() {
    Request request;
    if (!waiting_) {
      const int64_t weight = random_.Between(1, 3);
      waiting_ = Waiting{{.id = {number_, ++drawn_}}, weight};
      if (random_.Below(3) == 0) waiting_->ask.queue_for = Seconds(2);
    }
    request.asks = {{&limit_, "k", waiting_->weight}};
    request.permit = waiting_->ask;
    const int64_t weight = waiting_->weight;
    const Answer answer = client_->Ask(request);
    if (answer.outcome() == Outcome::kAllowed) {
      EXPECT_LE(held_ += weight, kPermits);
      mine_.push_back({answer.permit, core::Permits::ExpiryOf(answer.parts[0].charge), weight});
    }
    if (!answer.result.queued) waiting_.reset();
  }
  // A holder that slept too long.
  void Late() {
    const engine::PermitId permit = late_.back().permit;
    late_.pop_back();
    const core::PermitFate fate = random_.Below(2) == 0 ? client_->Renew(permit) : client_->Release(permit);
    EXPECT_TRUE(fate != core::PermitFate::kReleased && fate != core::PermitFate::kRenewed) << ToString(fate);
  }

  struct Waiting {
    core::PermitAsk ask;
    int64_t weight = 1;
  };
  TestEngine& engine_;
  const core::Limit& limit_;
  const uint64_t number_;
  Random random_;
  std::atomic<int64_t>& held_;  // of all processes, by what their holders know
  std::unique_ptr<Client> client_;
  EngineTime now_;
  uint64_t drawn_ = 0;
  std::optional<Waiting> waiting_;
  std::vector<Mine> mine_;
  std::vector<Mine> lost_;  // held by a process that crashed
  std::vector<Mine> late_;
};

TEST_P(PermitThreads, NeverMoreThanNUnexpiredHoldersAndAllCapacityIsBackALeaseAfterTheLastCrash) {
  const bool here = engine_->engine().name() == "memory";
  const Micros step = here ? Millis(400) : Seconds(5);  // below the lease
  // Of a store each is a connection to each of its servers; tests/redis has 64 at one server, for a real minute.
  const uint64_t threads_wanted = here ? kThreads : kThreads / 4;
  const auto limit = Registered("n", Semaphore(kPermits, kShortLease));
  Random seeds(Seed());
  std::atomic<int64_t> held{0};
  std::vector<std::unique_ptr<Process>> processes;
  for (uint64_t i = 0; i < threads_wanted; ++i) {
    processes.push_back(std::make_unique<Process>(*engine_, *limit, i + 1, seeds.Next(), held));
  }
  const EngineTime end = kStart + kModelTime;
  // Between two rounds one thread alone moves the clock.
  const auto tick = [&]() noexcept {
    engine_->SetNow(engine_->now() + step);
    for (const auto& process : processes) process->Count(engine_->now());
    EXPECT_LE(held, kPermits);
  };
  std::barrier round(static_cast<ptrdiff_t>(threads_wanted), tick);
  std::vector<std::thread> threads;
  for (const auto& process : processes) {
    threads.emplace_back([&, work = process.get()] {
      while (engine_->now() < end) {
        work->Work();
        round.arrive_and_wait();
      }
      work->Crash();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(InUse(*limit), held) << "what is held is what the holders know of";
  EXPECT_GT(held, 0);
  Advance(kShortLease);
  EXPECT_EQ(InUse(*limit), 0);
  EXPECT_EQ(Waiting(*limit), 0);
  EXPECT_EQ(Acquire(*limit, kPermits).outcome(), Outcome::kAllowed);
}

}  // namespace
}  // namespace penstock::conformance
