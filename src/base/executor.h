// What a room needs of an event loop, without the loop: run this later on my thread, wake me at an instant.
// net/ implements both over epoll; tests implement them by hand.
#pragma once

#include <cstdint>
#include <functional>

#include "base/time.h"

namespace penstock {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the task on the loop's thread, never inside this call. Any thread may call it. Tasks of one caller keep
  // their order.
  virtual void Post(std::function<void()> task) = 0;
};

class Timer {
 public:
  using Id = uint64_t;
  virtual ~Timer() = default;
  // Calls back once on the loop's thread, not before `at`. Only the loop's thread may schedule and cancel.
  virtual Id Schedule(SteadyTime at, std::function<void()> task) = 0;
  // A cancelled task is never called; an id that has fired or is unknown is ignored.
  virtual void Cancel(Id id) = 0;
};

}  // namespace penstock
