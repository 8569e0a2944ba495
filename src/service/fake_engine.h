// An engine for tests of the service: it decides by core's own function on a map, inline or when the test says so, and
// answers whatever state the test wants next. What no inline engine shows (late, stale, unavailable answers) it does.
//
// Thread contract: one thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "engine/engine.h"
#include "engine/memory/registry.h"

namespace penstock::service {

// Runs what was posted when the test says so.
class FakeExecutor final : public Executor {
 public:
  void Post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  void RunAll() {
    while (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }
  size_t size() const { return tasks_.size(); }

 private:
  std::deque<std::function<void()>> tasks_;
};

class FakeTimer final : public Timer {
 public:
  Id Schedule(SteadyTime, std::function<void()>) override { return 1; }
  void Cancel(Id) override {}
};

// Keeps what was scheduled until the test fires it, whatever its instant.
class ManualTimer final : public Timer {
 public:
  Id Schedule(SteadyTime, std::function<void()> task) override {
    tasks_.emplace(++last_, std::move(task));
    return last_;
  }
  void Cancel(Id id) override { tasks_.erase(id); }
  void FireAll() {
    const std::map<Id, std::function<void()>> due = std::exchange(tasks_, {});
    for (const auto& [id, task] : due) task();
  }
  size_t size() const { return tasks_.size(); }

 private:
  std::map<Id, std::function<void()>> tasks_;
  Id last_ = 0;
};

class FakeSession final : public engine::EngineSession {
 public:
  bool later = false;  // keep groups until AnswerOldest
  EngineTime now{1'000'000'000};
  core::Version next_version = 1;
  bool refuse_registration = false;
  bool no_place = false;  // for the parameters of ad hoc limits
  // The states of the next groups, front first; when empty they are decided.
  std::deque<engine::GroupResult> script;
  std::vector<SteadyTime> deadlines;  // of every Decide
  std::vector<size_t> batches;        // groups of every Decide
  std::vector<engine::Group> seen;    // every group, as it was handed over

  void Decide(engine::Batch& batch, SteadyTime deadline, engine::Sink& sink) noexcept override {
    deadlines.push_back(deadline);
    batches.push_back(batch.groups().size());
    for (engine::Group& group : batch.groups()) {
      seen.push_back(group);
      waiting_.push_back({&batch, &group, &sink});
    }
    if (!later) AnswerAll();
  }
  EngineTime EstimateNow() const override { return now; }
  void Register(std::span<core::Limit* const> limits, std::function<void(Result<void>)> done) override {
    if (refuse_registration) return done(Fail(ErrorKind::kUnavailable, "the store is away"));
    for (core::Limit* limit : limits) limit->version = next_version;
    ++next_version;
    done({});
  }
  engine::LimitRegistry& registry() override { return registry_; }
  Result<void> Bind(std::span<core::Limit* const>) override { return {}; }
  bool BindAdHoc(core::Limit&) override { return !no_place; }

  size_t waiting() const { return waiting_.size(); }
  // `index` 0 is the oldest.
  void Answer(size_t index) {
    const Waiting waiting = waiting_[index];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
    engine::Group& group = *waiting.group;
    if (script.empty()) {
      DecideGroup(*waiting.batch, group);
    } else {
      group.result = script.front();
      script.pop_front();
    }
    waiting.sink->Decided(*waiting.batch, group);
  }
  void AnswerAll() {
    while (!waiting_.empty()) Answer(0);
  }

 private:
  struct Waiting {
    engine::Batch* batch;
    engine::Group* group;
    engine::Sink* sink;
  };
  struct Bucket {
    core::BucketState state;
    core::LimitParams params;
    core::Version version = 0;
  };

  static std::string Name(const core::Operation& operation) {
    std::string name = operation.limit->identity;
    for (std::string_view part : operation.key) name += std::to_string(part.size()) + ":" + std::string(part);
    return name;
  }
  void DecideGroup(engine::Batch& batch, engine::Group& group) {
    const auto operations = batch.operations(group);
    for (core::Operation& operation : operations) {
      const auto found = buckets_.find(Name(operation));
      operation.bucket = {};
      if (found == buckets_.end()) continue;
      operation.bucket.present = true;
      operation.bucket.version = found->second.version;
      operation.bucket.params = &found->second.params;
      operation.bucket.state = found->second.state;
    }
    group.result = {.state = engine::GroupState::kDecided, .now = now};
    switch (core::DecideGroup(operations, group.options, now)) {
      case core::GroupStatus::kDecided:
        break;
      case core::GroupStatus::kStale:
        group.result.state = engine::GroupState::kStale;
        return;
      case core::GroupStatus::kStaleBoundaries:
        group.result.state = engine::GroupState::kStaleClock;
        return;
    }
    for (const core::Operation& operation : operations) {
      if (!operation.edit.write) continue;
      buckets_[Name(operation)] = {operation.edit.state, operation.limit->params, operation.limit->version};
    }
  }

  std::deque<Waiting> waiting_;
  std::map<std::string, Bucket> buckets_;
  engine::Registry registry_{[this] { return now; }};
};

class FakeEngine final : public engine::Engine {
 public:
  bool refuse_log = false;

  std::string_view name() const override { return "fake"; }
  std::unique_ptr<engine::EngineSession> OpenLoop(const engine::LoopParts&) override {
    return std::make_unique<FakeSession>();
  }
  Result<void> CanHold(const core::LimitParams& params) const override {
    if (refuse_log && params.algorithm == core::Algorithm::kSlidingLog) return Invalid("no logs here");
    return {};
  }
  bool CanHoldPermits() const override { return false; }
  bool ready() const override { return true; }
  engine::EngineStats stats() const override { return {}; }
};

}  // namespace penstock::service
