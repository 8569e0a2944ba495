// Keeps a permit by renewing it in a thread of its own, and tells of its loss.
//
// Thread contract: made and asked from one thread; `renew` is called on the keeper's.
#pragma once

#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "held_permit.h"
#include "permit_client.h"

namespace penstock::app {

// Monotonic, and goes on while the machine sleeps: a lease does, too.
SteadyTime BootTime();

// A counter of the kernel's as a thing to poll for.
class EventFd {
 public:
  EventFd();
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  void Set() const;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

class PermitKeeper {
 public:
  // One attempt, which ends after timeout_ms or when cancel_fd is readable.
  using Renew = std::function<Result<PermitFateAnswer>(int timeout_ms, int cancel_fd)>;

  PermitKeeper(const HeldPermit& permit, Renew renew);
  ~PermitKeeper();  // ends an attempt that is on its way
  PermitKeeper(const PermitKeeper&) = delete;
  PermitKeeper& operator=(const PermitKeeper&) = delete;

  // Readable from the moment on at which the permit is lost.
  int loss_fd() const { return lost_.fd(); }
  // As it is now.
  HeldPermit permit() const EXCLUDES(mutex_);
  // Why the last attempt failed; empty if it did not.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  void Keep() EXCLUDES(mutex_);
  // False: this keeper ends.
  bool SleepUntil(SteadyTime at) const;
  void Attempt(SteadyTime deadline) EXCLUDES(mutex_);

  const Renew renew_;
  const EventFd lost_;
  const EventFd ended_;
  mutable Mutex mutex_;
  HeldPermit permit_ GUARDED_BY(mutex_);
  std::string trouble_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace penstock::app
