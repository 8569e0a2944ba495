#include "permit_keeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/clock.h"

namespace penstock::app {

SteadyTime BootTime() {
  static const SystemClock clock;
  return clock.Steady();
}

EventFd::EventFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventFd::~EventFd() {
  if (fd_ >= 0) ::close(fd_);
}

void EventFd::Set() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);  // full is set, too
}

PermitKeeper::PermitKeeper(const HeldPermit& permit, Renew renew)
    : renew_(std::move(renew)), permit_(permit), thread_([this] { Keep(); }) {}

PermitKeeper::~PermitKeeper() {
  ended_.Set();
  thread_.join();
}

HeldPermit PermitKeeper::permit() const {
  const MutexLock lock(mutex_);
  return permit_;
}

std::string PermitKeeper::trouble() const {
  const MutexLock lock(mutex_);
  return trouble_;
}

void PermitKeeper::Keep() {
  for (;;) {
    HeldPermit permit = this->permit();
    if (!SleepUntil(std::min(permit.renew_at(), permit.deadline()))) return;
    bool held = false;
    {
      const MutexLock lock(mutex_);
      held = permit_.StillHeld(BootTime());
    }
    if (held) Attempt(permit.deadline());
    if (!this->permit().held()) return lost_.Set();
  }
}

bool PermitKeeper::SleepUntil(SteadyTime at) const {
  for (;;) {
    const Micros left = at - BootTime();
    if (left.count <= 0) return true;
    pollfd ended{ended_.fd(), POLLIN, 0};
    // In steps: a sleep of the machine is not part of the time-out.
    const int64_t ms = std::min<int64_t>(CeilMillis(left), 1'000);
    if (::poll(&ended, 1, static_cast<int>(ms)) > 0) return false;
  }
}

void PermitKeeper::Attempt(SteadyTime deadline) {
  const SteadyTime asked_at = BootTime();
  // One that nobody answers must not use up all the time that is left: the next may meet a server that has come back.
  const int64_t left_ms = CeilMillis(deadline - asked_at);
  const int64_t timeout_ms = std::min<int64_t>({left_ms, std::max<int64_t>(left_ms / 4, 250), 5'000});
  const Result<PermitFateAnswer> answer =
      renew_(static_cast<int>(std::max<int64_t>(timeout_ms, 1)), ended_.fd());
  const MutexLock lock(mutex_);
  trouble_ = answer ? "" : answer.error().message;
  const PermitFateAnswer said = answer.value_or(PermitFateAnswer{});
  if (answer && said.fate == core::PermitFate::kUnavailable) trouble_ = "the server cannot ask its engine";
  permit_.Answered(said.fate, Millis(said.expires_in_ms), asked_at, BootTime());
  permit_.StillHeld(BootTime());
}

}  // namespace penstock::app
