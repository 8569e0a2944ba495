#include "net/loop.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <string>

#include "base/log.h"
#include "net/asio_loop.h"

namespace penstock::net {
namespace {

// A clock that is moved by hand says so (ClockMoved); this only bounds how long a wait by it can be wrong.
constexpr Micros kLongestWait = Seconds(1);

}  // namespace

void LoopImpl::ArmTimer() {
  if (due.empty()) {
    timer.cancel();
    return;
  }
  const Micros wait = SteadyTime{due.begin()->first.first} - clock.Steady();
  timer.expires_after(ToChrono(std::clamp(wait, Micros{0}, kLongestWait)));
  timer.async_wait([this](boost::system::error_code error) {
    if (!error) RunTimers();
  });
}

void LoopImpl::RunTimers() {
  const int64_t now = clock.Steady().us;
  // Only what was there when we began: a task that schedules for "now" does not keep the loop here.
  const uint64_t end = next_id;
  for (auto it = due.begin(); it != due.end() && it->first.first <= now;) {
    if (it->first.second >= end) {
      ++it;
      continue;
    }
    std::function<void()> task = std::move(it->second);
    instants.erase(it->first.second);
    due.erase(it);
    task();
    it = due.begin();  // the task may have scheduled and cancelled
  }
  ArmTimer();
}

Loop::Loop(const Clock& clock) : impl_(std::make_unique<LoopImpl>(clock)) {}
Loop::~Loop() = default;

void Loop::Run() noexcept {
  const auto guard = boost::asio::make_work_guard(impl_->io);
  // Nothing we run throws by contract; what still does is our own mistake or the end of memory, and ends the process
  // with a trace of where.
  impl_->io.run();
}

void Loop::Stop() { impl_->io.stop(); }

void Loop::Post(std::function<void()> task) { boost::asio::post(impl_->io, std::move(task)); }

Timer::Id Loop::Schedule(SteadyTime at, std::function<void()> task) {
  const Id id = impl_->next_id++;
  const auto it = impl_->due.emplace(std::pair(at.us, id), std::move(task)).first;
  impl_->instants.emplace(id, at.us);
  if (it == impl_->due.begin()) impl_->ArmTimer();
  return id;
}

void Loop::Cancel(Id id) {
  const auto it = impl_->instants.find(id);
  if (it == impl_->instants.end()) return;
  impl_->due.erase({it->second, id});
  impl_->instants.erase(it);
}

void Loop::ClockMoved() {
  boost::asio::post(impl_->io, [impl = impl_.get()] { impl->RunTimers(); });
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
