// 64 threads that hold, renew, give back, wait and crash for a minute of real time, on a real Redis without a clock of the
// test's own: leases run out by themselves. The judge is what the holders know (permit_book.h).
//
// PENSTOCK_SECONDS says how long, PENSTOCK_SEED which.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/random.h"
#include "base/test_seed.h"
#include "conformance/harness.h"
#include "core/permits.h"
#include "engine/redis/redis_engine.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "redis/permit_book.h"
#include "redis/redis_server.h"

namespace penstock::conformance {
namespace {

using core::PermitFate;
using engine::PermitId;
using fixtures::OwnDeadline;
using fixtures::RedisServer;
using fixtures::Stay;

constexpr int kThreads = 64;
constexpr Micros kLongest = Seconds(2);   // of a lease
constexpr Micros kPatience = Seconds(5);  // of a call
constexpr std::string_view kKeys[] = {"x", "y", "z"};
constexpr size_t kBuckets = 2 * std::size(kKeys);  // of either limit one a key
constexpr int64_t kRate = 400'000;                 // never refuses

int64_t RunSeconds() {
  const char* const text = std::getenv("PENSTOCK_SECONDS");
  return text == nullptr ? 60 : std::max(std::atoll(text), 1LL);
}

EngineTime WallNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
}

class RealLoop final : public TestLoop {
 public:
  RealLoop(engine::Engine& engine, const Clock& clock)
      : clock_(clock),
        loop_(clock),
        dialer_(net::NewDialer(loop_)),
        session_(engine.OpenLoop({loop_, loop_, dialer_.get()})) {
    mine = this;
    while (!Answers()) RunFor(Millis(2));
  }
  ~RealLoop() override { session_->Close(); }

  engine::EngineSession& session() override { return *session_; }
  SteadyTime deadline() const override { return clock_.Steady() + kPatience; }
  void RunUntil(const bool& done) override {
    while (!done) loop_.RunTurn();  // the deadline ends what hangs
  }
  void RunFor(Micros time) {
    bool done = false;
    loop_.Schedule(clock_.Steady() + time, [&done] { done = true; });
    RunUntil(done);
  }

  static thread_local RealLoop* mine;  // the one that this thread opened last

 private:
  class Probe final : public engine::Sink {
   public:
    void Decided(engine::Batch&, engine::Group& group) noexcept override {
      fine = group.result.state == engine::GroupState::kDecided;
      done = true;
    }
    bool fine = false;
    bool done = false;
  };
  // Until the connection stands, it does not.
  bool Answers() {
    const auto limit = MakeLimit("probe", Bucket(1, kMinute));
    session_->BindAdHoc(*limit);
    engine::Batch batch;
    const std::string_view key[] = {"k"};
    batch.AddGroup();
    batch.AddOperation(*limit, key);
    Probe probe;
    session_->Decide(batch, deadline(), probe);
    RunUntil(probe.done);
    return probe.fine;
  }

  const Clock& clock_;
  net::Loop loop_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<engine::EngineSession> session_;
};
thread_local RealLoop* RealLoop::mine = nullptr;

class RealRedis final : public TestEngine {
 public:
  RealRedis() : engine_(*engine::redis::ParseUrl(server_.Url()), clock_) { SetLogLevel(LogLevel::kWarning); }

  engine::Engine& engine() override { return engine_; }
  EngineTime now() const override { return WallNow(); }
  void SetNow(EngineTime) override { FAIL() << "this clock is not moved"; }
  std::unique_ptr<TestLoop> OpenLoop() override { return std::make_unique<RealLoop>(engine_, clock_); }
  SteadyTime Steady() const { return clock_.Steady(); }

 private:
  RedisServer server_;
  SystemClock clock_;
  engine::redis::RedisEngine engine_;
};

struct Limits {
  std::unique_ptr<core::Limit> first = MakeLimit("first", Semaphore(10, kLongest));
  std::unique_ptr<core::Limit> second = MakeLimit("second", Semaphore(12, kLongest));
  std::unique_ptr<core::Limit> rate = MakeLimit("rate", Bucket(10, kDay, kRate));

  std::array<core::Limit*, 3> all() const { return {first.get(), second.get(), rate.get()}; }
};

struct Counts {
  uint64_t asks = 0, granted = 0, rates = 0, queued = 0, granted_late = 0, renewed = 0, released = 0,
           lost = 0;
  uint64_t forgotten = 0, crashes = 0, strangers = 0, given_up = 0;
  // On a machine that is too busy a call may come to nothing, or a charge be lost sight of.
  uint64_t unavailable = 0, rates_unsure = 0;

  void Add(const Counts& other) {
    for (size_t i = 0; i < sizeof(Counts) / sizeof(uint64_t); ++i)
      reinterpret_cast<uint64_t*>(this)[i] += reinterpret_cast<const uint64_t*>(&other)[i];
  }
};

class Holder {
 public:
  Holder(RealRedis& redis, const Limits& limits, uint64_t number, uint64_t seed)
      : redis_(redis), limits_(limits), number_(number), random_(seed) {}

  void Work(SteadyTime end) {
    while (redis_.Steady() < end) {
      if (client_ == nullptr) client_ = std::make_unique<Client>(redis_);
      Step();
      if (client_ != nullptr) RealLoop::mine->RunFor(Millis(random_.Between(0, 25)));
    }
    Forget();
    client_.reset();
  }
  const std::vector<Stay>& stays() const { return stays_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Mine {
    PermitId permit;
    SteadyTime held_until;      // it cannot have expired before
    std::vector<size_t> stays;  // places in stays_
  };
  struct Old {
    PermitId permit;
    bool released = false;  // else it expired
  };

  void Step() {
    const uint64_t what = random_.Below(1'000);
    if (what < 3) return Crash();
    if (what < 30) return Forget();
    if (what < 130) return Stranger();
    if (mine_.empty() || (what < 430 && mine_.size() < 4)) return Acquire();
    const size_t pick = random_.Below(mine_.size());
    what < 560 ? Renew(pick) : Release(pick);
  }
  // The process is gone, and with it its connections and its places in queues; its permits run out.
  void Crash() {
    ++counts_.crashes;
    Forget();
    client_.reset();
  }
  // The work went on without giving back.
  void Forget() {
    counts_.forgotten += mine_.size();
    mine_.clear();
  }

  Request NewRequest() {
    const std::string_view key = kKeys[random_.Below(std::size(kKeys))];
    const std::string_view other = kKeys[random_.Below(std::size(kKeys))];
    const int64_t weight = random_.Between(1, 3);
    Request request;
    const uint64_t kind = random_.Below(10);
    if (kind < 5) request.asks = {{limits_.first.get(), key, weight}};
    if (kind >= 5 && kind < 7) request.asks = {{limits_.second.get(), key, weight}};
    if (kind >= 7)
      request.asks = {
          {limits_.first.get(), key, weight}, {limits_.rate.get()}, {limits_.second.get(), other, weight}};
    request.permit = core::PermitAsk{.id = {number_, ++drawn_}, .lease = Millis(random_.Between(500, 2'000))};
    return request;
  }
  void Acquire() {
    Request request = NewRequest();
    const SteadyTime until = redis_.Steady() + Millis(random_.Below(2) == 0 ? random_.Between(50, 1'000) : 0);
    const bool faithless = random_.Below(100) == 0;  // goes while it waits, without a word
    for (bool again = false;; again = true) {
      const SteadyTime sent = redis_.Steady();
      request.permit->queue_for = std::max(until - sent, Micros{});
      const Answer answer = client_->Ask(request);
      const SteadyTime got = redis_.Steady();
      ++counts_.asks;
      if (answer.result.state == engine::GroupState::kUnavailable) {
        ++counts_.unavailable;
        if (request.asks.size() > 1) ++counts_.rates_unsure;
        return;  // what may have been granted all the same is undone, or nobody's until it expires
      }
      ASSERT_EQ(answer.result.state, engine::GroupState::kDecided);
      if (answer.outcome() == Outcome::kAllowed) {
        if (again) ++counts_.granted_late;
        return Hold(request, answer, sent, got);
      }
      EXPECT_EQ(answer.outcome(), Outcome::kDenied);
      if (!answer.result.queued) return;
      if (!again) ++counts_.queued;
      if (faithless) return;
      if (random_.Below(20) == 0) return Leave(answer);
      // A hint is not listened to: what is granted to who asks by the clock is granted to who was woken.
      const Micros pause = std::min(answer.result.ask_again_after, Millis(random_.Between(2, 100)));
      RealLoop::mine->RunFor(std::min(pause, std::max(until - redis_.Steady(), Millis(1))));
    }
  }
  void Hold(const Request& request, const Answer& answer, SteadyTime sent, SteadyTime got) {
    ++counts_.granted;
    const Micros lease = request.permit->lease;
    Mine mine{answer.permit, sent + lease, {}};
    EXPECT_EQ(answer.permit.id, request.permit->id);
    size_t held = 0;
    for (size_t i = 0; i < request.asks.size(); ++i) {
      const Ask& ask = request.asks[i];
      if (ask.limit == limits_.rate.get()) {
        ++counts_.rates;
        continue;
      }
      const core::Charge& charge = answer.parts[i].charge;
      EXPECT_EQ(charge.cost, ask.cost);
      EXPECT_EQ(core::Permits::ExpiryOf(charge), answer.result.now + lease);
      ++held;
      mine.stays.push_back(stays_.size());
      stays_.push_back({.bucket = BucketOf(ask),
                        .weight = ask.cost,
                        .fence = core::Permits::FenceOf(charge),
                        .asked = sent,
                        .begins = got,
                        .ends = OwnDeadline(sent, lease),
                        .granted = answer.result.now,
                        .expires = core::Permits::ExpiryOf(charge)});
    }
    EXPECT_EQ(answer.permit.size, held);
    mine_.push_back(std::move(mine));
  }
  size_t BucketOf(const Ask& ask) const {
    const size_t key = std::find(std::begin(kKeys), std::end(kKeys), ask.key) - std::begin(kKeys);
    return key + (ask.limit == limits_.second.get() ? std::size(kKeys) : 0);
  }
  void Leave(const Answer& waiting) {
    ++counts_.given_up;
    const PermitFate fate = client_->Leave(waiting.waiting);
    if (Unavailable(fate)) return;
    EXPECT_TRUE(fate == PermitFate::kReleased || fate == PermitFate::kUnknown) << ToString(fate);
  }

  void Renew(size_t pick) {
    Mine& mine = mine_[pick];
    const Micros lease = Millis(random_.Between(500, 2'000));
    const SteadyTime sent = redis_.Steady();
    const EngineTime wall = WallNow();
    const engine::PermitCall call = client_->Call(engine::PermitVerb::kRenew, mine.permit, lease);
    if (Unavailable(call.fate)) return;  // it ends when it did before, at the earliest
    if (call.fate != PermitFate::kRenewed) return Lost(pick, call.fate, "a false loss");
    ++counts_.renewed;
    EXPECT_GE(call.expires_in, lease);
    mine.held_until = std::max(mine.held_until, sent + lease);
    for (const size_t at : mine.stays) {
      stays_[at].ends = std::max(stays_[at].ends, OwnDeadline(sent, lease));
      stays_[at].expires = std::max(stays_[at].expires, wall + call.expires_in);
    }
  }
  void Release(size_t pick) {
    Mine& mine = mine_[pick];
    const SteadyTime sent = redis_.Steady();
    const EngineTime wall = WallNow();
    const PermitFate fate = client_->Release(mine.permit);
    const bool unsure = Unavailable(fate);
    if (!unsure && fate != PermitFate::kReleased) return Lost(pick, fate, "somebody else's touch");
    if (!unsure) ++counts_.released;
    for (const size_t at : mine.stays) {
      stays_[at].ends = std::min(stays_[at].ends, sent);
      stays_[at].expires = std::min(stays_[at].expires, wall);
    }
    if (!unsure) return Bury(pick, true);
    mine_.erase(mine_.begin() + static_cast<ptrdiff_t>(pick));  // asked for again it may be anything
  }
  bool Unavailable(PermitFate fate) {
    if (fate != PermitFate::kUnavailable) return false;
    ++counts_.unavailable;
    return true;
  }
  // It may only have expired.
  void Lost(size_t pick, PermitFate fate, const char* else_what) {
    ++counts_.lost;
    EXPECT_TRUE(fate == PermitFate::kExpired || fate == PermitFate::kUnknown) << ToString(fate);
    EXPECT_GE(redis_.Steady(), mine_[pick].held_until) << else_what;
    Bury(pick, false);
  }
  void Bury(size_t pick, bool released) {
    if (old_.size() == 32) old_.erase(old_.begin());
    old_.push_back({mine_[pick].permit, released});
    mine_.erase(mine_.begin() + static_cast<ptrdiff_t>(pick));
  }

  // Who was told his permit is gone, slept too long, or has made an id up, changes nothing.
  void Stranger() {
    ++counts_.strangers;
    const bool renew = random_.Below(2) == 0;
    const auto call = [&](const PermitId& permit) {
      return renew ? client_->Renew(permit, kLongest) : client_->Release(permit);
    };
    if (!old_.empty() && random_.Below(2) == 0) {
      const Old& old = old_[random_.Below(old_.size())];
      const PermitFate fate = call(old.permit);
      if (Unavailable(fate)) return;
      EXPECT_TRUE(fate == PermitFate::kUnknown || (fate == PermitFate::kExpired && !old.released))
          << ToString(fate);
      return;
    }
    if (mine_.empty()) return;
    PermitId forged = mine_[random_.Below(mine_.size())].permit;
    switch (random_.Below(3)) {
      case 0:
        forged.id.low ^= uint64_t{1} << 40;
        break;
      case 1:
        ++forged.weight;
        break;
      default:
        for (size_t i = 0; i < forged.size; ++i) ++forged.places[i].fence;
    }
    const PermitFate fate = call(forged);
    if (Unavailable(fate)) return;
    EXPECT_TRUE(fate == PermitFate::kUnknown || fate == PermitFate::kExpired) << ToString(fate);
  }

  RealRedis& redis_;
  const Limits& limits_;
  const uint64_t number_;
  Random random_;
  std::unique_ptr<Client> client_;
  uint64_t drawn_ = 0;
  std::vector<Mine> mine_;
  std::vector<Old> old_;
  std::vector<Stay> stays_;
  Counts counts_;
};

class PermitThreads : public testing::Test {
 protected:
  PermitThreads() {
    const auto all = limits_.all();
    while (!client_.TryRegister({all.begin(), all.end()})) RealLoop::mine->RunFor(Millis(10));
  }
  const core::Limit& LimitOf(size_t bucket) const {
    return bucket < std::size(kKeys) ? *limits_.first : *limits_.second;
  }
  static std::string_view KeyOf(size_t bucket) { return kKeys[bucket % std::size(kKeys)]; }
  // Until it is decided.
  Answer Ask(const Request& request) {
    for (;;) {
      Answer answer = client_.Ask(request);
      if (answer.result.state != engine::GroupState::kUnavailable) return answer;
      RealLoop::mine->RunFor(Millis(10));
    }
  }
  engine::HolderList Holders(size_t bucket) {
    engine::HolderList list;
    Request request;
    request.mode = engine::Mode::kHolders;
    request.asks = {{&LimitOf(bucket), KeyOf(bucket), 0}};
    request.listing = &list;
    EXPECT_EQ(Ask(request).result.state, engine::GroupState::kDecided);
    return list;
  }
  // Beside those who work: what the store says.
  void WatchUntil(SteadyTime end) {
    while (redis_.Steady() < end) {
      for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
        const engine::HolderList list = Holders(bucket);
        int64_t weight = 0;
        for (const auto& entry : list.entries) weight += entry.weight;
        EXPECT_LE(list.in_use, LimitOf(bucket).params.capacity);
        EXPECT_EQ(list.in_use, weight) << "the sum beside the set";
      }
      RealLoop::mine->RunFor(Millis(100));
    }
  }
  void ExpectAllIsBack() {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const engine::HolderList list = Holders(bucket);
      EXPECT_EQ(list.in_use, 0);
      EXPECT_EQ(list.entries.size(), 0U);
      Request request;
      request.asks = {{&LimitOf(bucket), KeyOf(bucket), LimitOf(bucket).params.capacity}};
      request.permit = core::PermitAsk{.id = {~uint64_t{0}, bucket}};
      EXPECT_EQ(Ask(request).outcome(), Outcome::kAllowed)
          << "somebody stands before him, or something is held";
      EXPECT_EQ(Holders(bucket).waiting, 0);
    }
  }
  // C69: what permits refused was not spent.
  void ExpectRatesSpent(const Counts& counts) {
    Request request;
    request.asks = {{limits_.rate.get(), "k", 0}};
    const int64_t spent = kRate - Ask(request)[0].remaining;
    EXPECT_GE(spent, static_cast<int64_t>(counts.rates));
    EXPECT_LE(spent, static_cast<int64_t>(counts.rates + counts.rates_unsure));
  }

  RealRedis redis_;
  Limits limits_;
  Client client_{redis_};
};

TEST_F(PermitThreads, NeverMoreThanNHoldNobodyTouchesAnothersAndAllIsBackALeaseAfterTheLastCrash) {
  Random seeds(TestSeed());
  std::vector<std::unique_ptr<Holder>> holders;
  for (uint64_t i = 0; i < kThreads; ++i)
    holders.push_back(std::make_unique<Holder>(redis_, limits_, i + 1, seeds.Next()));
  const SteadyTime end = redis_.Steady() + Seconds(RunSeconds());
  std::vector<std::thread> threads;
  for (const auto& holder : holders) threads.emplace_back([&, work = holder.get()] { work->Work(end); });
  WatchUntil(end);
  for (std::thread& thread : threads) thread.join();
  Counts counts;
  std::array<std::vector<Stay>, kBuckets> stays;
  for (const auto& holder : holders) {
    counts.Add(holder->counts());
    for (const Stay& stay : holder->stays()) stays[stay.bucket].push_back(stay);
  }
  // What nobody heard of may run until its call's deadline.
  RealLoop::mine->RunFor(kLongest + (counts.unavailable > 0 ? kPatience : Micros{}));
  ExpectAllIsBack();
  ExpectRatesSpent(counts);
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const int64_t permits = LimitOf(bucket).params.capacity;
    const fixtures::Verdicts verdicts = fixtures::Judge(stays[bucket]);
    EXPECT_LE(verdicts.most_by_engine, permits) << "bucket " << bucket;
    EXPECT_LE(verdicts.most_by_holders, permits) << "bucket " << bucket;
    EXPECT_GT(verdicts.most_by_engine, permits - 3) << "it was never full: nothing is shown";
    EXPECT_EQ(verdicts.wrong_fences, "") << "bucket " << bucket;
    std::cout << "bucket " << bucket << " of " << permits << ": " << stays[bucket].size()
              << " grants, at most " << verdicts.most_by_engine << " held by the engine's clock, "
              << verdicts.most_by_holders << " by the holders'" << std::endl;
  }
  std::cout << "asks " << counts.asks << ", granted " << counts.granted << " (after waiting "
            << counts.granted_late << ", with a rate " << counts.rates << "), queued " << counts.queued
            << ", given up " << counts.given_up << ", renewed " << counts.renewed << ", released "
            << counts.released << ", run out " << counts.lost << ", forgotten " << counts.forgotten
            << ", crashes " << counts.crashes << ", strangers " << counts.strangers << ", unavailable "
            << counts.unavailable << std::endl;
  for (const uint64_t some :
       {counts.granted_late, counts.rates, counts.renewed, counts.released, counts.forgotten})
    EXPECT_GT(some, 0U);
}

}  // namespace
}  // namespace penstock::conformance
