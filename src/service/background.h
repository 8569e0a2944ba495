// A thread for what takes long and may wait in line: compiling policies. One task at a time, in order.
//
// Thread contract: Post from any thread. The destructor drops what has not begun and waits for what has.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/executor.h"

namespace penstock::service {

class Background final : public Executor {
 public:
  Background() : thread_([this] { Run(); }) {}
  ~Background() override;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Whoever posts bounds how much: the keeper of limits has one task at a time.
  void Post(std::function<void()> task) override;

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;  // under mutex_
  bool stop_ = false;                        // under mutex_
  std::thread thread_;
};

}  // namespace penstock::service
