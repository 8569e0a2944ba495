#include "net/loop.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "net/loop_impl.h"

namespace penstock::net {
namespace {

// A clock that is moved by hand says so (ClockMoved); this only bounds how long a wait by it can be wrong.
constexpr Micros kLongestWait = Seconds(1);

}  // namespace

LoopImpl::LoopImpl(const Clock& c)
    : clock(c), epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!ready()) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the loop's own
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

LoopImpl::~LoopImpl() {
  if (wake_ >= 0) ::close(wake_);
  if (epoll_ >= 0) ::close(epoll_);
}

bool LoopImpl::Watch(int fd, Watched& watched, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watched;
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void LoopImpl::Rewatch(int fd, Watched& watched, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watched;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void LoopImpl::Unwatch(int fd, const Watched& watched) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  for (size_t i = 0; i < event_count_; ++i) {
    if (events_[i].data.ptr == &watched) events_[i].data.ptr = nullptr;
  }
}

void LoopImpl::ForgetTurnEnd(const TurnEnd& what) {
  std::erase(turn_ends_, &what);
  std::replace(ending_.begin(), ending_.end(), const_cast<TurnEnd*>(&what), static_cast<TurnEnd*>(nullptr));
}

SteadyTime LoopImpl::RealNow() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return {now.tv_sec * 1'000'000 + now.tv_nsec / 1'000};
}

void LoopImpl::Wake() {
  const uint64_t one = 1;
  // It can only fail when it is readable already.
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

void LoopImpl::Post(std::function<void()> task) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  // The loop looks at its tasks before it waits; only another thread must wake it.
  if (first && thread_.load(std::memory_order_relaxed) != std::this_thread::get_id()) Wake();
}

void LoopImpl::Stop() {
  stopped_.store(true, std::memory_order_relaxed);
  Wake();
}

int LoopImpl::WaitMs() {
  if (!turn_ends_.empty()) return 0;
  {
    MutexLock lock(mutex_);
    if (!tasks_.empty()) return 0;
  }
  Micros wait = kLongestWait;
  if (!real_timers.empty()) wait = std::min(wait, real_timers.next() - RealNow());
  if (!timers.empty()) wait = std::min(wait, timers.next() - clock.Steady());
  return static_cast<int>(std::max<int64_t>(CeilMillis(wait), 0));
}

void LoopImpl::RunTasks() {
  {
    MutexLock lock(mutex_);
    running_.swap(tasks_);  // what a task posts comes in the next turn
  }
  for (const std::function<void()>& task : running_) task();
  running_.clear();
}

void LoopImpl::RunTurnEnds() {
  if (turn_ends_.empty()) return;
  ending_.swap(turn_ends_);  // what comes meanwhile has the next turn's end
  for (size_t i = 0; i < ending_.size(); ++i) {
    if (ending_[i] != nullptr) ending_[i]->OnTurnEnd();
  }
  ending_.clear();
}

void LoopImpl::Run() {
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (!stopped_.load(std::memory_order_relaxed)) Turn();
}

void LoopImpl::RunTurn() {
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  Turn();
}

void LoopImpl::Turn() {
  const int count = ::epoll_wait(epoll_, events_.data(), kEventsPerTurn, WaitMs());
  event_count_ = static_cast<size_t>(std::max(count, 0));  // none on EINTR
  for (size_t i = 0; i < event_count_; ++i) {
    const epoll_event event = events_[i];
    if (event.data.ptr != nullptr) {
      static_cast<Watched*>(event.data.ptr)->OnReady(event.events);
      continue;
    }
    uint64_t woken = 0;
    [[maybe_unused]] const ssize_t read = ::read(wake_, &woken, sizeof woken);
  }
  event_count_ = 0;
  RunTasks();
  if (!real_timers.empty()) real_timers.Run(RealNow());
  if (!timers.empty()) timers.Run(clock.Steady());
  RunTurnEnds();
}

Loop::Loop(const Clock& clock) : impl_(std::make_unique<LoopImpl>(clock)) {}
Loop::~Loop() = default;

bool Loop::ready() const { return impl_->ready(); }

// Nothing that runs here throws by contract; what still does is our own mistake or the end of memory, and ends the
// process with a trace of where.
void Loop::Run() noexcept { impl_->Run(); }

void Loop::Stop() { impl_->Stop(); }

void Loop::RunTurn() noexcept { impl_->RunTurn(); }

void Loop::Post(std::function<void()> task) { impl_->Post(std::move(task)); }

Timer::Id Loop::Schedule(SteadyTime at, std::function<void()> task) {
  return impl_->timers.Schedule(at, std::move(task));
}

void Loop::Cancel(Id id) { impl_->timers.Cancel(id); }

// Every turn looks at the timers.
void Loop::ClockMoved() {
  impl_->Post([] {});
}

void PrepareProcess() {
  std::signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0)
      Log(LogLevel::kWarning, "cannot raise the limit of open files");
  }
}

}  // namespace penstock::net
