// The engine's time as this node last knew it, going on by the node's own clock: what the local engine decides by, so
// that its windows are the engine's windows and what was seen there means the same here.
//
// Thread contract: any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace penstock::service {

class EngineClock final : public Clock {
 public:
  // `own` must outlive this one. Until Set they tell the same time.
  explicit EngineClock(const Clock& own) : own_(own) {}

  EngineTime Now() const override { return own_.Now() + Micros{ahead_us_.load(std::memory_order_relaxed)}; }
  SteadyTime Steady() const override { return own_.Steady(); }
  // By the best estimate it is `now` at the engine.
  void Set(EngineTime now) { ahead_us_.store((now - own_.Now()).count, std::memory_order_relaxed); }

 private:
  const Clock& own_;
  std::atomic<int64_t> ahead_us_{0};
};

}  // namespace penstock::service
