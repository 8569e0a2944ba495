#include "base/clock.h"
#include "engine/memory/memory_engine.h"
#include "harness.h"

namespace penstock::conformance {
namespace {

// The memory engine answers inside the call: its loop has nothing to do.
class MemoryLoop final : public TestLoop {
 public:
  explicit MemoryLoop(engine::MemoryEngine& engine) : session_(engine.OpenSession()) {}
  engine::EngineSession& session() override { return *session_; }
  void RunUntil(const bool& done) override { EXPECT_TRUE(done); }

 private:
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
