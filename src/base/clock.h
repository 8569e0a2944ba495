// The clocks, as an object that is handed to engines and timers; nothing else reads time.
//
// Thread contract: every method may be called from any thread.
#pragma once

#include <atomic>

#include "base/time.h"

namespace penstock {

class Clock {
 public:
  virtual ~Clock() = default;
  // Wall time for deciding: never runs backwards by itself (rule E5).
  virtual EngineTime Now() const = 0;
  // Monotonic time for deadlines and latency. It goes on while the machine sleeps: so do the leases of whoever wakes.
  virtual SteadyTime Steady() const = 0;
};

// Wall clock at construction plus boot-time clock since; re-anchored forward once a minute, so that calendar
// windows stay true while a step back of the wall clock never reaches a decision. Never ahead of a wall clock that
// makes no such step.
class SystemClock final : public Clock {
 public:
  SystemClock();
  EngineTime Now() const override;
  SteadyTime Steady() const override;

 private:
  mutable std::atomic<int64_t> offset_us_;       // wall - boot time
  mutable std::atomic<int64_t> next_anchor_us_;  // boot time at which the offset is looked at again
};

// A clock that a test moves by hand, back too. Steady time moves with it, but never back.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(EngineTime start) : now_us_(start.us), steady_us_(start.us) {}
  EngineTime Now() const override { return {now_us_.load(std::memory_order_relaxed)}; }
  SteadyTime Steady() const override { return {steady_us_.load(std::memory_order_relaxed)}; }
  void Set(EngineTime now);
  void Advance(Micros by) { Set(Now() + by); }

 private:
  std::atomic<int64_t> now_us_;
  std::atomic<int64_t> steady_us_;
};

}  // namespace penstock
