// An engine for tests of the service: it decides by core's own function on a map, inline or when the test says so, and
// answers whatever state the test wants next. What no inline engine shows (late, stale, unavailable answers) it does.
//
// Thread contract: one thread.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/hash.h"
#include "core/testing/permit_book.h"
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
  Id Schedule(SteadyTime at, std::function<void()> task) override {
    tasks_.emplace(++last_, std::move(task));
    instants_.emplace(last_, at);
    return last_;
  }
  void Cancel(Id id) override {
    tasks_.erase(id);
    instants_.erase(id);
  }
  void FireAll() {
    const std::map<Id, std::function<void()>> due = std::exchange(tasks_, {});
    instants_.clear();
    for (const auto& [id, task] : due) task();
  }
  // For when they are scheduled, in the order in which they were.
  std::vector<SteadyTime> instants() const {
    std::vector<SteadyTime> all;
    for (const auto& [id, at] : instants_) all.push_back(at);
    return all;
  }
  size_t size() const { return tasks_.size(); }

 private:
  std::map<Id, std::function<void()>> tasks_;
  std::map<Id, SteadyTime> instants_;
  Id last_ = 0;
};

// Fires what is due by a clock that the test moves, in its order.
class ClockTimer final : public Timer {
 public:
  explicit ClockTimer(const Clock& clock) : clock_(clock) {}
  Id Schedule(SteadyTime at, std::function<void()> task) override {
    tasks_.emplace(++last_, Task{at, std::move(task)});
    return last_;
  }
  void Cancel(Id id) override { tasks_.erase(id); }
  void FireDue() {
    std::vector<std::pair<SteadyTime, Id>> due;
    for (const auto& [id, task] : tasks_) {
      if (task.at <= clock_.Steady()) due.emplace_back(task.at, id);
    }
    std::sort(due.begin(), due.end());
    for (const auto& [at, id] : due) {
      const auto found = tasks_.find(id);
      if (found == tasks_.end()) continue;  // cancelled by an earlier one
      const std::function<void()> run = std::move(found->second.run);
      tasks_.erase(found);
      run();
    }
  }

 private:
  struct Task {
    SteadyTime at;
    std::function<void()> run;
  };
  const Clock& clock_;
  std::map<Id, Task> tasks_;
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
  bool calls_later = false;           // keep calls about permits until AnswerCalls
  bool degraded = false;              // answers say that somebody stood in
  bool away = false;                  // calls about permits are unavailable
  Micros ask_again_after = Seconds(2);
  Micros replay_after{};  // not 0: the next group is told as a replay of what is decided now, so much later
  bool keeps_ids = true;
  std::vector<engine::PermitCall> calls;  // every one, as it was handed over
  std::vector<core::PermitAsk> asks;      // every permit that was brought along; `holder` is not kept

  void Decide(engine::Batch& batch, SteadyTime deadline, engine::Sink& sink) noexcept override {
    deadlines.push_back(deadline);
    batches.push_back(batch.groups().size());
    for (engine::Group& group : batch.groups()) {
      seen.push_back(group);
      if (group.options.permit != nullptr) {
        asks.push_back(*group.options.permit);
        asks.back().holder = {};
      }
      waiting_.push_back({&batch, &group, &sink});
    }
    if (!later) AnswerAll();
  }
  void CallPermits(std::span<engine::PermitCall> permits, SteadyTime,
                   engine::PermitSink& sink) noexcept override {
    for (engine::PermitCall& call : permits) {
      calls.push_back(call);
      waiting_calls_.push_back({&call, &sink});
    }
    if (!calls_later) AnswerCalls();
  }
  void SetWaker(engine::PermitWaker* waker) noexcept override { waker_ = waker; }
  engine::PermitWaker* waker() const { return waker_; }
  // Tells those who stand first in their queues.
  void WakeHeads() {
    std::vector<Hash128> heads;
    for (const auto& [name, book] : books_) {
      if (!book.waiters().empty()) heads.push_back(book.waiters().front().id);
    }
    for (const Hash128& id : heads) waker_->Woken(id);
  }
  void AnswerCalls() {
    while (!waiting_calls_.empty()) {
      const auto [call, sink] = waiting_calls_.front();
      waiting_calls_.pop_front();
      call->fate = core::PermitFate::kUnavailable;
      call->reason = Reason::kEngineDown;
      if (!away) CallOne(*call);
      sink->Called(*call);
    }
  }
  // What is held and who waits, over all buckets.
  int64_t in_use() const {
    int64_t sum = 0;
    for (const auto& [name, book] : books_) sum += book.in_use(now);
    return sum;
  }
  size_t queued() const {
    size_t sum = 0;
    for (const auto& [name, book] : books_) sum += book.waiters().size();
    return sum;
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
      if (replay_after.count > 0) {
        group.result.replayed = true;
        group.result.now = group.result.now + std::exchange(replay_after, {});
      }
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
  void CallOne(engine::PermitCall& call) {
    call.fate = engine::DoneFate(call.verb);
    call.reason = Reason::kNone;
    core::BucketEdit edit;
    edit.write = true;
    edit.permit = core::PermitChange::kLeave;
    core::PermitAsk ask;
    ask.id = call.permit.id;
    for (const engine::PermitPlace& place : call.permit.held()) {
      core::testing::PermitBook& book = books_[place.bucket];
      switch (call.verb) {
        case engine::PermitVerb::kRelease:
          call.fate = core::Together(call.fate, book.Release(call.permit.id, now));
          break;
        case engine::PermitVerb::kRenew:
          call.fate = core::Together(call.fate, book.Renew(call.permit.id, call.lease, now));
          call.expires_in = call.lease;
          break;
        case engine::PermitVerb::kLeave:
          edit.state.before = fences_[place.bucket];
          book.Apply(edit, {}, ask);
          break;
      }
    }
  }
  void List(const core::Operation& operation, engine::HolderList& list) {
    const core::testing::PermitBook& book = books_[operation.name];
    list.bucket = operation.name;
    list.in_use = book.in_use(now);
    list.waiting = static_cast<int64_t>(book.waiters().size());
    for (const core::Holder& holder : book.holders()) {
      if (holder.expires_at <= now) continue;
      const std::string name = holders_[holder.id];
      if (!list.only.empty() && list.only != name) continue;
      list.entries.push_back(
          {holder.id, static_cast<uint32_t>(holder.weight), holder.fence, holder.expires_at - now, name});
    }
  }
  void DecideGroup(engine::Batch& batch, engine::Group& group) {
    const auto operations = batch.operations(group);
    const core::PermitAsk* const ask = group.options.permit;
    for (core::Operation& operation : operations) {
      if (core::IsPermits(*operation.limit)) {
        operation.named = true;
        operation.name = {1, Checksum64(Name(operation))};
        operation.bucket =
            books_[operation.name].View(operation.limit->params, ask == nullptr ? Hash128{} : ask->id, now);
        if (operation.bucket.present) operation.bucket.version = operation.limit->version;
        continue;
      }
      const auto found = buckets_.find(Name(operation));
      operation.bucket = {};
      if (found == buckets_.end()) continue;
      operation.bucket.present = true;
      operation.bucket.version = found->second.version;
      operation.bucket.params = &found->second.params;
      operation.bucket.state = found->second.state;
    }
    group.result = {.state = engine::GroupState::kDecided, .degraded = degraded, .now = now};
    group.result.replayable = keeps_ids;
    if (group.mode == engine::Mode::kHolders) return List(operations.front(), *group.listing);
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
      if (core::IsPermits(*operation.limit)) {
        books_[operation.name].Apply(operation.edit, operation.charge,
                                     ask == nullptr ? core::PermitAsk{} : *ask);
        fences_[operation.name] = operation.edit.state.before;
        if (operation.charge.cost > 0) group.result.permit_id = ask->id;
        if (operation.charge.cost > 0) holders_[ask->id] = ask->holder;
        group.result.queued |= operation.verdict.queued;
        group.result.ask_again_after = ask_again_after;
        continue;
      }
      buckets_[Name(operation)] = {operation.edit.state, operation.limit->params, operation.limit->version};
    }
  }

  std::deque<Waiting> waiting_;
  struct WaitingCall {
    engine::PermitCall* call;
    engine::PermitSink* sink;
  };
  std::deque<WaitingCall> waiting_calls_;
  engine::PermitWaker* waker_ = nullptr;
  std::map<Hash128, core::testing::PermitBook> books_;
  std::map<Hash128, int64_t> fences_;
  std::map<Hash128, std::string> holders_;  // names, by permit
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
