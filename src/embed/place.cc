#include "embed/place.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace penstock::embed {

void PlaceExecutor::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  waiting_.store(true, std::memory_order_release);
}

void PlaceExecutor::RunAll() {
  std::vector<std::function<void()>> tasks;
  {
    MutexLock lock(mutex_);
    tasks.swap(tasks_);
    waiting_.store(false, std::memory_order_relaxed);
  }
  for (const std::function<void()>& task : tasks) task();
}

Place::Place(engine::Engine& engine, const Clock& clock, service::PolicyStore& store,
             service::LoopCounters& counters, const service::DeciderOptions& options)
    : session_(engine.OpenLoop({executor_, timer_})),
      decider_(std::make_unique<service::DeciderImpl>(engine, *session_, executor_, clock, store, counters,
                                                      options)) {
  for (service::Request& request : requests_) request.stable = true;
}

size_t Places::CountFor(size_t wanted) { return std::clamp(std::bit_ceil(wanted), kMin, kMax); }

size_t Visit::ThreadNumber() {
  static std::atomic<uint32_t> next{1};
  // Read on every check: a plain offset from the thread's own register, without the call that a shared library's
  // thread-local variables otherwise cost. 0: not numbered yet.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local uint32_t number = 0;
  if (number == 0) [[unlikely]]
    number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

Place& Visit::EnterAnother(const Places& places, size_t number) {
  const size_t mask = places.size() - 1;
  for (size_t i = 1; i <= mask; ++i) {
    Place& other = places[(number + i) & mask];
    if (other.lock_.TryLock()) return other;
  }
  Place& own = places[number & mask];
  own.lock_.Lock();
  return own;
}

}  // namespace penstock::embed
