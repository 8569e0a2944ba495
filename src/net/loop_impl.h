// The loop as the sockets of net see it: readiness by epoll, level-triggered, and timers by the kernel's clock.
// Internal to net.
//
// Level-triggered, so that a connection which is read from once a turn needs one registration for its life instead of
// one system call a request to ask again (docs/decisions.md has the figures).
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "net/timer_queue.h"

namespace penstock::net {

// What owns a file descriptor that the loop watches.
class Watched {
 public:
  virtual ~Watched() = default;
  // Some of EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP; once a turn at most.
  virtual void OnReady(uint32_t events) noexcept = 0;
};

// What is put off to the end of a turn of the loop, so that many small writes become one.
class TurnEnd {
 public:
  virtual ~TurnEnd() = default;
  virtual void OnTurnEnd() noexcept = 0;
};

class LoopImpl {
 public:
  explicit LoopImpl(const Clock& c);
  ~LoopImpl();
  LoopImpl(const LoopImpl&) = delete;
  LoopImpl& operator=(const LoopImpl&) = delete;

  bool ready() const { return epoll_ >= 0 && wake_ >= 0; }
  void Run();
  void RunTurn();
  void Stop();
  void Post(std::function<void()> task) EXCLUDES(mutex_);

  // The loop's thread. `events` may be 0: then only EPOLLERR and EPOLLHUP are told. Closing the descriptor ends the
  // watch; in OnReady only the object's own may be closed, others' in a task or after Unwatch.
  bool Watch(int fd, Watched& watched, uint32_t events);
  void Rewatch(int fd, Watched& watched, uint32_t events);
  // Ends the watch of a descriptor that is still open; what this turn had to tell of it is not told any more.
  void Unwatch(int fd, const Watched& watched);

  // The loop's thread (or before Run). Calls back once, at the end of this turn: after the tasks and timers that are due.
  void AtTurnEnd(TurnEnd& what) { turn_ends_.push_back(&what); }
  // It is no longer called.
  void ForgetTurnEnd(const TurnEnd& what);

  // By the kernel's coarse clock, whatever clock the loop was given.
  SteadyTime RealNow() const;
  TimerQueue real_timers;

  const Clock& clock;
  TimerQueue timers;  // by `clock`

 private:
  static constexpr int kEventsPerTurn = 128;

  int WaitMs() EXCLUDES(mutex_);
  void Turn();
  void RunTasks() EXCLUDES(mutex_);
  void RunTurnEnds();
  void Wake();

  const int epoll_;  // this and the next: -1 when there was none to be had
  const int wake_;   // an eventfd, readable when another thread has posted
  std::array<epoll_event, kEventsPerTurn> events_;
  size_t event_count_ = 0;                      // of this turn
  std::vector<std::function<void()>> running_;  // tasks of this turn
  std::vector<TurnEnd*> turn_ends_;
  std::vector<TurnEnd*> ending_;  // those of this turn; null: forgotten
  std::atomic<bool> stopped_{false};
  std::atomic<std::thread::id> thread_{};
  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ GUARDED_BY(mutex_);
};

}  // namespace penstock::net
