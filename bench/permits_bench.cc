// Permits by an engine alone: acquire and release, over and over, on one bucket.
//
//   permits_bench URL PERMITS HELD FLIGHTS EACH PAIRS
//
// URL is an engine's (`memory:`, `redis://…`). HELD permits of PERMITS are held by others all the time. FLIGHTS groups
// of EACH requests are under way at once, each on a session (so, a connection) of its own: a group acquires together,
// then releases together. Prints one line: pairs,
// seconds, CPU microseconds of this process a pair, refused. Used by permits.py, which measures the server beside it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "core/params.h"
#include "cpu.h"
#include "engine/engine.h"
#include "engine/permit_id.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "service/engine_set.h"

namespace penstock {
namespace {

constexpr Micros kTimeout = Seconds(10);  // a busy machine is not what is measured

std::unique_ptr<core::Limit> Semaphore(int64_t permits) {
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "bench";
  limit->name = "in-flight";
  limit->identity = "bench/in-flight";
  limit->key_names = {"user"};
  limit->params =
      core::CompileRate({.algorithm = core::Algorithm::kPermits, .count = permits, .period = Seconds(600)})
          .value();
  return limit;
}

class Load final : private engine::Sink, private engine::PermitSink {
 public:
  using Sessions = std::vector<std::unique_ptr<engine::EngineSession>>;

  Load(net::Loop& loop, const Clock& clock, const Sessions& sessions, const core::Limit& limit,
       uint64_t pairs)
      : loop_(loop), clock_(clock), sessions_(sessions), limit_(limit), pairs_(pairs) {}

  // Takes as many at once and keeps them.
  bool Hold(size_t count) {
    while (count > 0) {
      Flight& flight = *flights_.emplace_back(std::make_unique<Flight>());
      flight.size = std::min<size_t>(count, 1'000);
      flight.session = sessions_[0].get();
      flight.keep = true;
      deadline_ = clock_.Steady() + kTimeout;
      count -= flight.size;
      Acquire(flight);
      while (flight.open > 0) loop_.RunTurn();
    }
    return refused_ == 0;
  }

  void Run(size_t flights, size_t each) {
    const size_t first = flights_.size();
    for (size_t i = 0; i < flights; ++i) {
      flights_.emplace_back(std::make_unique<Flight>())->size = each;
      flights_.back()->session = sessions_[i % sessions_.size()].get();
      ready_.push_back(flights_.back().get());
    }
    // An engine that answers inline has every flight ready again when its step returns.
    while (done_ < pairs_) {
      if (ready_.empty()) loop_.RunTurn();
      deadline_ = clock_.Steady() + kTimeout;
      stepping_.swap(ready_);
      for (Flight* flight : stepping_) {
        if (done_ < pairs_) Step(*flight);
      }
      stepping_.clear();
    }
    for (size_t i = first; i < flights_.size(); ++i) {
      while (flights_[i]->open > 0) loop_.RunTurn();
    }
  }
  uint64_t done() const { return done_; }
  uint64_t refused() const { return refused_; }

 private:
  struct Flight {
    engine::EngineSession* session = nullptr;
    size_t size = 0;
    bool keep = false;
    size_t open = 0;
    engine::Batch batch;
    std::vector<core::PermitAsk> asks;
    std::vector<engine::PermitCall> calls;  // to release what was granted
  };

  void Step(Flight& flight) { flight.calls.empty() ? Acquire(flight) : Release(flight); }

  void Acquire(Flight& flight) {
    static constexpr std::string_view kKey = "one";
    flight.batch.Clear();
    flight.asks.resize(flight.size);
    flight.open = flight.size;
    for (core::PermitAsk& ask : flight.asks) {
      ask.id = {random_.Next(), random_.Next()};
      engine::Group& group = flight.batch.AddGroup();
      group.domain = limit_.domain;
      group.options.permit = &ask;
      group.token = reinterpret_cast<uintptr_t>(&flight);
      flight.batch.AddOperationInPlace(limit_, {&kKey, 1}).cost = 1;
    }
    flight.session->Decide(flight.batch, deadline_, *this);
  }
  void Release(Flight& flight) {
    flight.open = flight.calls.size();
    flight.session->CallPermits(flight.calls, deadline_, *this);
  }
  void Decided(engine::Batch& batch, engine::Group& group) noexcept override {
    Flight& flight = *reinterpret_cast<Flight*>(static_cast<uintptr_t>(group.token));
    const engine::PermitId permit = engine::GrantedPermit(batch.operations(group), group.result);
    if (permit.size == 0) {
      ++refused_;
    } else if (!flight.keep) {
      flight.calls.push_back({.permit = permit, .token = group.token});
    }
    if (--flight.open == 0 && !flight.keep) ready_.push_back(&flight);
  }
  void Called(engine::PermitCall& call) noexcept override {
    Flight& flight = *reinterpret_cast<Flight*>(static_cast<uintptr_t>(call.token));
    if (call.fate == core::PermitFate::kReleased) ++done_;
    if (--flight.open > 0) return;
    flight.calls.clear();
    ready_.push_back(&flight);
  }

  net::Loop& loop_;
  const Clock& clock_;
  const Sessions& sessions_;
  const core::Limit& limit_;
  const uint64_t pairs_;
  Random random_{7};
  SteadyTime deadline_;  // of what is asked in this round
  uint64_t done_ = 0;
  uint64_t refused_ = 0;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> ready_;
  std::vector<Flight*> stepping_;  // empty between two rounds: kept for its room
};

int Main(int count, char** arguments) {
  if (count != 7) {
    std::fprintf(stderr, "usage: permits_bench URL PERMITS HELD FLIGHTS EACH PAIRS\n");
    return 2;
  }
  const auto number = [&](int at) { return std::strtoull(arguments[at], nullptr, 10); };
  const SystemClock clock;
  auto engines = service::EngineSet::Open({.url = arguments[1]}, clock);
  if (!engines) {
    std::fprintf(stderr, "%s\n", engines.error().message.c_str());
    return 1;
  }
  net::Loop loop(clock);
  const std::unique_ptr<Dialer> dialer = net::NewDialer(loop);
  Load::Sessions sessions;
  for (uint64_t i = 0; i < std::max<uint64_t>(number(4), 1); ++i) {
    sessions.push_back((*engines)->engine().OpenLoop({loop, loop, dialer.get()}));
  }
  const std::unique_ptr<core::Limit> limit = Semaphore(static_cast<int64_t>(number(2)));
  bool registered = false;
  for (int tries = 0; tries < 100 && !registered; ++tries) {  // until it is connected
    core::Limit* limits[] = {limit.get()};
    bool answered = false;
    sessions[0]->Register(limits, [&](const Result<void>& result) {
      answered = true;
      registered = result.has_value();
    });
    while (!answered) loop.RunTurn();
    if (registered) break;
    loop.Schedule(clock.Steady() + Millis(20), [] {});
    loop.RunTurn();
  }
  // The other sessions' connections: what is asked before they are there is refused.
  for (const SteadyTime until = clock.Steady() + Millis(200); clock.Steady() < until;) {
    loop.Schedule(until, [] {});
    loop.RunTurn();
  }
  Load load(loop, clock, sessions, *limit, number(6));
  if (!registered || !load.Hold(number(3))) {
    std::fprintf(stderr, "the engine cannot be asked, or has no room\n");
    return 1;
  }
  const double cpu = CpuMicros();
  const auto began = std::chrono::steady_clock::now();
  load.Run(number(4), number(5));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%llu %.6f %.4f %llu\n", static_cast<unsigned long long>(load.done()), seconds,
              (CpuMicros() - cpu) / static_cast<double>(load.done()),
              static_cast<unsigned long long>(load.refused()));
  for (const auto& session : sessions) session->Close();
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int count, char** arguments) { return penstock::Main(count, arguments); }
