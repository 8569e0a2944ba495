// An event loop on a thread of its own, with a dialer: for who asks and waits.
//
// Thread contract: one thread makes and destroys it; Run from that thread.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/dialer.h"
#include "net/loop.h"

namespace penstock::checkup {

class LoopThread {
 public:
  // The clock must outlive it.
  explicit LoopThread(const Clock& clock);
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  // Does it on the loop's thread and waits until it is done. Never from that thread itself.
  void Run(const std::function<void()>& task);

  net::Loop& loop() { return loop_; }
  Dialer& dialer() { return *dialer_; }  // the loop's thread
  const Clock& clock() const { return clock_; }

 private:
  const Clock& clock_;
  net::Loop loop_;
  std::unique_ptr<Dialer> dialer_;
  std::thread thread_;
};

}  // namespace penstock::checkup
