#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "engine/memory/memory_engine.h"
#include "harness.h"

namespace penstock::conformance {
namespace {

// Tasks that any thread posts.
class Tasks final : public Executor, public Timer {
 public:
  void Post(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_one();
  }
  // The memory engine sets no alarms.
  Id Schedule(SteadyTime, std::function<void()>) override { return 0; }
  void Cancel(Id) override {}

  // Waits for one; false when none came for so long that none will.
  bool RunOne() {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      if (!posted_.wait_for(lock, std::chrono::seconds(10), [this] { return !tasks_.empty(); })) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
};

// The memory engine answers inside the call: its loop has nothing to do but to wake who waits for a permit.
class MemoryLoop final : public TestLoop {
 public:
  explicit MemoryLoop(engine::MemoryEngine& engine) : session_(engine.OpenLoop({tasks_, tasks_})) {}
  engine::EngineSession& session() override { return *session_; }
  void RunUntil(const bool& done) override {
    while (!done && tasks_.RunOne()) continue;
    EXPECT_TRUE(done);
  }

 private:
  Tasks tasks_;
  std::unique_ptr<engine::EngineSession> session_;
};

class MemoryUnderTest final : public TestEngine {
 public:
  MemoryUnderTest() : clock_(kStart), engine_({.shards = 4}, clock_) {}
  engine::Engine& engine() override { return engine_; }
  EngineTime now() const override { return clock_.Now(); }
  void SetNow(EngineTime now) override { clock_.Set(now); }
  std::unique_ptr<TestLoop> OpenLoop() override { return std::make_unique<MemoryLoop>(engine_); }

 private:
  ManualClock clock_;
  engine::MemoryEngine engine_;
};

}  // namespace

std::vector<EngineFactory> EngineFactories() {
  return {{"memory", [] { return std::make_unique<MemoryUnderTest>(); }}};
}

}  // namespace penstock::conformance
