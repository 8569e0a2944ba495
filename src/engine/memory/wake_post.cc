#include "engine/memory/wake_post.h"

#include <utility>

namespace penstock::engine {

void WakePost::Wake(const Hash128& permit_id) {
  const MutexLock lock(mutex_);
  if (executor_ == nullptr) return;
  due_.push_back(permit_id);
  if (due_.size() > 1) return;
  executor_->Post([self = shared_from_this()] { self->Deliver(); });
}

void WakePost::Close() {
  waker_ = nullptr;
  const MutexLock lock(mutex_);
  executor_ = nullptr;
}

void WakePost::Deliver() {
  std::vector<Hash128> due;
  {
    const MutexLock lock(mutex_);
    due.swap(due_);
  }
  // Whoever hears may say that he hears no more.
  for (const Hash128& permit_id : due) {
    if (waker_ != nullptr) waker_->Woken(permit_id);
  }
}

}  // namespace penstock::engine
