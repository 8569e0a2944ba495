// A task of an object's own that its loop runs later: once, however often it was asked for before it ran, and not at
// all when the object is gone by then.
//
// Thread contract: the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/executor.h"

namespace penstock {

class Later {
 public:
  // The executor outlives it. What the task refers to need live no longer than this does.
  Later(Executor& executor, std::function<void()> task)
      : executor_(executor), shared_(std::make_shared<Shared>(std::move(task))) {}
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;
  ~Later() { shared_->gone = true; }

  // Asks for one more run. The task may do so too, and may end the life of this.
  void Post() {
    if (std::exchange(shared_->posted, true)) return;
    executor_.Post([shared = shared_] {
      shared->posted = false;
      if (!shared->gone) shared->task();
    });
  }

 private:
  struct Shared {
    explicit Shared(std::function<void()> run) : task(std::move(run)) {}
    const std::function<void()> task;
    bool posted = false;
    bool gone = false;
  };

  Executor& executor_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace penstock
