// A node that asks for permits and counts by itself what is held: an engine on a loop of the test's own thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "core/params.h"
#include "core/permits.h"
#include "engine/permit_call.h"
#include "engine/permit_id.h"
#include "engine/redis/redis_engine.h"
#include "net/dialer.h"
#include "net/loop.h"

namespace penstock::fixtures {

inline engine::redis::Options OptionsOf(const std::string& url) {
  Result<engine::redis::Options> options = engine::redis::ParseUrl(url);
  if (!options) throw std::runtime_error(options.error().message);
  return *std::move(options);
}

class StrictNode final : public engine::Sink, public engine::PermitSink {
 public:
  struct Grant {
    engine::PermitId permit;
    EngineTime at, expires_at;
  };

  explicit StrictNode(const std::string& url)
      : engine_(OptionsOf(url), clock_),
        loop_(clock_),
        dialer_(net::NewDialer(loop_)),
        session_(engine_.OpenLoop({loop_, loop_, dialer_.get()})) {
    SetLogLevel(LogLevel::kWarning);
  }
  ~StrictNode() override { session_->Close(); }
  StrictNode(const StrictNode&) = delete;
  StrictNode& operator=(const StrictNode&) = delete;

  std::unique_ptr<core::Limit> Semaphore(int64_t permits, Micros lease, bool strict, uint8_t replicas = 0) {
    auto limit = std::make_unique<core::Limit>();
    limit->domain = "d";
    limit->name = "n";
    limit->identity = "d/n";
    limit->key_names = {"key"};
    core::RateSpec spec;
    spec.algorithm = core::Algorithm::kPermits;
    spec.count = permits;
    spec.period = lease;
    limit->params = *core::CompileRate(spec);
    limit->strict = strict;
    limit->replicas = replicas;
    limit->version = 1;
    core::Limit* limits[] = {limit.get()};
    EXPECT_TRUE(session_->Bind(limits));
    return limit;
  }

  // One request for one permit. What it was granted is noted.
  core::Verdict Ask(const core::Limit& limit) {
    const core::PermitAsk ask{.id = {RandomSeed(), RandomSeed()}};
    const std::string_view key = "k";
    engine::Batch batch;
    batch.AddGroup().options.permit = &ask;
    batch.AddOperation(limit, std::span(&key, 1)).cost = 1;
    done_ = false;
    session_->Decide(batch, clock_.Steady() + kTimeout, *this);
    Run();
    const core::Operation& operation = batch.operations()[0];
    if (operation.charge.cost > 0) {
      grants.push_back({engine::GrantedPermit(batch.operations(), result), operation.charge.at,
                        core::Permits::ExpiryOf(operation.charge)});
      most_held = std::max(most_held, Held());
    }
    return operation.verdict;
  }
  // Asks until it is decided: a store that is being replaced is away for a while.
  core::Verdict AskDecided(const core::Limit& limit) {
    const SteadyTime end = clock_.Steady() + Seconds(30);
    for (;;) {
      const core::Verdict verdict = Ask(limit);
      if (result.state == engine::GroupState::kDecided || clock_.Steady() > end) return verdict;
      Pause(Millis(20));
    }
  }
  core::PermitFate Call(engine::PermitVerb verb, const engine::PermitId& permit) {
    engine::PermitCall call;
    call.verb = verb;
    call.permit = permit;
    done_ = false;
    session_->CallPermits({&call, 1}, clock_.Steady() + kTimeout, *this);
    Run();
    return call.fate;
  }
  // Asks again and again until `count` more were granted, or the time is over.
  void AskUntilGranted(const core::Limit& limit, size_t count, Micros at_most) {
    const SteadyTime end = clock_.Steady() + at_most;
    for (const size_t enough = grants.size() + count; grants.size() < enough && clock_.Steady() < end;) {
      Ask(limit);
      Pause(Millis(10));
    }
  }
  void Pause(Micros duration) {
    const SteadyTime end = clock_.Steady() + duration;
    const auto timer = loop_.Schedule(end, [] {});
    while (clock_.Steady() < end) loop_.RunTurn();
    loop_.Cancel(timer);
  }
  // As the holders have it: all servers' clocks are this machine's.
  int64_t Held() const {
    const EngineTime now = clock_.Now();
    int64_t held = 0;
    for (const Grant& grant : grants) held += grant.expires_at > now ? 1 : 0;
    return held;
  }
  bool ready() const { return engine_.ready(); }
  EngineTime now() const { return clock_.Now(); }

  void Decided(engine::Batch&, engine::Group& group) noexcept override {
    result = group.result;
    done_ = true;
  }
  void Called(engine::PermitCall&) noexcept override { done_ = true; }

  engine::GroupResult result;
  std::vector<Grant> grants;
  int64_t most_held = 0;

 private:
  static constexpr Micros kTimeout = Millis(500);

  void Run() {
    while (!done_) loop_.RunTurn();
  }

  SystemClock clock_;
  engine::redis::RedisEngine engine_;
  net::Loop loop_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<engine::EngineSession> session_;
  bool done_ = false;
};

}  // namespace penstock::fixtures
