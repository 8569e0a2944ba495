// The way from any thread to the one who hears on an event loop that a waiting permit may be granted now. Wake-ups that
// come together are one task of the loop.
//
// Thread contract: Wake from any thread, with no shard's lock held; SetWaker and Close on the loop's. Shared by the
// session and by the queue entries of those who asked there, so that either may go first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"
#include "engine/permit_call.h"

namespace penstock::engine {

class WakePost : public std::enable_shared_from_this<WakePost> {
 public:
  // Null: a caller without a loop, who hears of nothing.
  explicit WakePost(Executor* executor) : reaches_(executor != nullptr), executor_(executor) {}

  // Whether there is a loop on which somebody may hear.
  bool reaches() const { return reaches_; }

  void SetWaker(PermitWaker* waker) { waker_ = waker; }
  void Wake(const Hash128& permit_id) EXCLUDES(mutex_);
  // Nobody is woken from now on, and the executor is used no more.
  void Close() EXCLUDES(mutex_);

  // Entries of queues that refer to this.
  std::atomic<int64_t> entries{0};

 private:
  void Deliver() EXCLUDES(mutex_);

  const bool reaches_;
  PermitWaker* waker_ = nullptr;  // the loop's thread alone
  Mutex mutex_;
  Executor* executor_ GUARDED_BY(mutex_);
  std::vector<Hash128> due_ GUARDED_BY(mutex_);  // not empty: a task is on its way
};

// Somebody to wake once the shard's lock is given back.
struct WakeUp {
  std::shared_ptr<WakePost> post;
  Hash128 permit_id;
};

}  // namespace penstock::engine
