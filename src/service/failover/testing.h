// For tests of the fallback: nodes of one fleet over one engine that each of them can be cut off from, in model time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/memory/memory_engine.h"
#include "engine/memory/testing.h"
#include "service/failover/failover_engine.h"
#include "service/fake_engine.h"

namespace penstock::service::testing {

inline constexpr EngineTime kStart{1'800'057'600'000'000};  // begins a day

// How one node reaches the engine.
enum class Line : uint8_t {
  kUp,
  kDown,         // refused: not run
  kRepliesLost,  // it runs, and nobody hears of it
};

class SwitchedSession final : public engine::EngineSession, private engine::Sink {
 public:
  SwitchedSession(std::unique_ptr<engine::EngineSession> engine, const Line& line)
      : engine_(std::move(engine)), line_(line) {}

  void Decide(engine::Batch& batch, SteadyTime deadline, engine::Sink& sink) noexcept override {
    const bool up = line_ == Line::kUp;
    if (line_ != Line::kDown) engine_->Decide(batch, deadline, up ? sink : *this);
    if (up) return;
    for (engine::Group& group : batch.groups()) {
      group.result = {.reason = line_ == Line::kDown ? Reason::kEngineDown : Reason::kTimeout,
                      .may_have_run = line_ == Line::kRepliesLost,
                      .now = {}};
      sink.Decided(batch, group);
    }
  }
  void CallPermits(std::span<engine::PermitCall> calls, SteadyTime deadline,
                   engine::PermitSink& sink) noexcept override {
    if (line_ == Line::kUp) return engine_->CallPermits(calls, deadline, sink);
    for (engine::PermitCall& call : calls) {
      call.fate = core::PermitFate::kUnavailable;
      call.reason = Reason::kEngineDown;
      sink.Called(call);
    }
  }
  void Expect(core::Operation& operation) noexcept override { engine_->Expect(operation); }
  EngineTime EstimateNow() const override { return engine_->EstimateNow(); }
  engine::LimitRegistry& registry() override { return engine_->registry(); }
  Result<void> Bind(std::span<core::Limit* const> limits) override { return engine_->Bind(limits); }
  bool BindAdHoc(core::Limit& limit) override { return engine_->BindAdHoc(limit); }

 private:
  void Decided(engine::Batch&, engine::Group&) noexcept override {}

  const std::unique_ptr<engine::EngineSession> engine_;
  const Line& line_;
};

class SwitchedEngine final : public engine::Engine {
 public:
  SwitchedEngine(engine::MemoryEngine& engine, const Line& line) : engine_(engine), line_(line) {}
  std::string_view name() const override { return "switched"; }
  std::unique_ptr<engine::EngineSession> OpenLoop(const engine::LoopParts&) override {
    return std::make_unique<SwitchedSession>(engine_.OpenSession(), line_);
  }
  Result<void> CanHold(const core::LimitParams& params) const override { return engine_.CanHold(params); }
  bool CanHoldPermits() const override { return engine_.CanHoldPermits(); }
  bool ready() const override { return true; }
  engine::EngineStats stats() const override { return engine_.stats(); }

 private:
  engine::MemoryEngine& engine_;
  const Line& line_;
};

class ManualTimer final : public Timer {
 public:
  Id Schedule(SteadyTime at, std::function<void()> task) override {
    tasks_[++last_] = {at, std::move(task)};
    return last_;
  }
  void Cancel(Id id) override { tasks_.erase(id); }
  // Those that were scheduled before the call.
  void RunDue(SteadyTime now) {
    std::vector<Id> due;
    for (const auto& [id, task] : tasks_) {
      if (task.first <= now) due.push_back(id);
    }
    for (const Id id : due) {
      const auto found = tasks_.find(id);
      if (found == tasks_.end()) continue;
      const std::function<void()> run = std::move(found->second.second);
      tasks_.erase(found);
      run();
    }
  }
  size_t size() const { return tasks_.size(); }

 private:
  std::map<Id, std::pair<SteadyTime, std::function<void()>>> tasks_;
  Id last_ = 0;
};

class FixedFleet final : public engine::FleetView {
 public:
  explicit FixedFleet(const engine::Fleet& fleet) : value(fleet) {}
  engine::Fleet fleet() const override { return value; }
  engine::Fleet value;
};

struct TestNode {
  TestNode(engine::MemoryEngine& shared, const Clock& own_clock, const engine::Fleet& place,
           FailoverOptions options = {})
      : view(place),
        remote(shared, line),
        clock(own_clock),
        local({.max_keys = 100'000, .shards = 4}, clock),
        engine(remote, local, view, own_clock,
               [this, &options] {
                 options.clock = &clock;
                 options.seen_buckets =
                     options.seen_buckets == size_t{1} << 20 ? 1'024 : options.seen_buckets;
                 return options;
               }()),
        session(engine.OpenLoop({executor, timer})) {}

  Line line = Line::kUp;
  FixedFleet view;
  SwitchedEngine remote;
  EngineClock clock;
  engine::MemoryEngine local;
  FailoverEngine engine;
  FakeExecutor executor;
  ManualTimer timer;
  std::unique_ptr<engine::EngineSession> session;
};

// One request's part.
struct Ask {
  const core::Limit* limit;
  int64_t cost = 1;
  std::string key = "k";
};

class FleetTest : public ::testing::Test {
 protected:
  void Open(uint32_t nodes, const FailoverOptions& options = {}) {
    for (uint32_t i = 0; i < nodes; ++i)
      nodes_.push_back(std::make_unique<TestNode>(shared_, clock_, engine::Fleet{nodes, i, true}, options));
  }
  std::unique_ptr<core::Limit> Limit(const core::RateSpec& spec, std::string name = "l") {
    return engine::testing::MakeLimit(*direct_, std::move(name), spec);
  }
  static core::RateSpec Bucket(int64_t count, Micros period, int64_t burst) {
    core::RateSpec spec = engine::testing::Rate(core::Algorithm::kTokenBucket, count, period);
    spec.burst = burst;
    return spec;
  }
  void Cut(Line line) {
    for (const auto& node : nodes_) node->line = line;
  }
  // The request's verdicts; what else came of it is in result_.
  std::vector<core::Verdict> Decide(engine::EngineSession& session, const std::vector<Ask>& asks,
                                    const std::function<void(engine::Group&)>& with = {}) {
    batch_.Clear();
    engine::Group& group = batch_.AddGroup();
    group.domain = "d";
    for (const Ask& ask : asks) {
      const std::string_view key = ask.key;
      batch_.AddOperation(*ask.limit, std::span(&key, 1)).cost = ask.cost;
    }
    if (with) with(batch_.groups()[0]);
    NoSink no_sink;
    session.Decide(batch_, SteadyTime{}, no_sink);
    result_ = batch_.groups()[0].result;
    std::vector<core::Verdict> verdicts;
    for (const core::Operation& operation : batch_.operations()) verdicts.push_back(operation.verdict);
    return verdicts;
  }
  core::Verdict Check(size_t node, const core::Limit& limit, int64_t cost = 1,
                      const std::function<void(engine::Group&)>& with = {}) {
    return Decide(*nodes_[node]->session, {{&limit, cost}}, with)[0];
  }
  int64_t AdmitAll(size_t node, const core::Limit& limit) {
    int64_t admitted = 0;
    while (Check(node, limit).outcome == Outcome::kAllowed && admitted < 1'000) ++admitted;
    return admitted;
  }
  // As somebody else sees it who reaches the engine.
  core::Verdict Peek(const core::Limit& limit) { return Decide(*direct_, {{&limit, 0}})[0]; }
  int64_t Used(const core::Limit& limit) { return limit.params.capacity - Peek(limit).remaining; }
  // Lets `time` pass in small steps, so that every node's timer runs.
  void Pass(Micros time) {
    const Micros step = std::max(Millis(20), Micros{time.count / 50});
    for (const EngineTime end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Set(std::min(end, clock_.Now() + step));
      for (const auto& node : nodes_) node->timer.RunDue(clock_.Steady());
    }
  }
  // Lets the nodes report everything without letting time pass for long.
  void Settle() {
    for (int i = 0; i < 200; ++i) {
      clock_.Advance(Micros{1'000});
      for (const auto& node : nodes_) node->timer.RunDue(clock_.Steady() + Seconds(10));
    }
  }

  ManualClock clock_{kStart};
  engine::MemoryEngine shared_{{.max_keys = 100'000, .shards = 4}, clock_};
  std::unique_ptr<engine::EngineSession> direct_ = shared_.OpenSession();
  std::vector<std::unique_ptr<TestNode>> nodes_;
  engine::Batch batch_;
  engine::GroupResult result_;
};

}  // namespace penstock::service::testing
