// An event loop: one thread, its sockets, its timers, and the tasks that other threads post to it. The server runs
// one a core; nothing on the decision path crosses from one to another.
//
// Two clocks meet here. Schedule() goes by the Clock it was given, which a test may move by hand; the time-outs of
// connections go by the kernel's, so that moving the former an hour does not close a single one.
//
// Thread contract: Run() once, on the thread that becomes the loop's. Post, Stop and ClockMoved from any thread,
// Schedule and Cancel on the loop's own. Listeners are destroyed before their loop and not while it runs.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/executor.h"

namespace penstock::net {

class LoopImpl;  // loop_impl.h, seen by net alone

class Loop final : public Executor, public Timer {
 public:
  // The clock must outlive the loop.
  explicit Loop(const Clock& clock);
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // False when the system had no file descriptors for it: then it must not run.
  bool ready() const;

  // Returns after Stop(). Tasks still queued then are dropped.
  void Run() noexcept;
  void Stop();
  // One turn of it, for a caller that drives the loop by hand instead (tests), always on the same thread: waits until
  // there is something to do, at most a second.
  void RunTurn() noexcept;

  void Post(std::function<void()> task) override;
  Id Schedule(SteadyTime at, std::function<void()> task) override;
  void Cancel(Id id) override;

  // The clock was moved by hand: timers that are due now fire now.
  void ClockMoved();

  LoopImpl& impl() { return *impl_; }

 private:
  std::unique_ptr<LoopImpl> impl_;
};

// What every process with sockets wants once, at its start: no death by SIGPIPE, and as many file descriptors as it
// may have.
void PrepareProcess();

}  // namespace penstock::net
