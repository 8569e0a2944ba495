// A place to decide at: what an event loop is to a server. A limiter has a few; a thread takes one for the length of a
// call, so that threads do not wait for each other's bookkeeping (buckets have their own locks, in the engine).
//
// Thread contract: any thread may enter, through a Visit; everything else is for the visitor alone.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/memory/shard_lock.h"
#include "service/decider_impl.h"

namespace penstock::embed {

// Keeps tasks until the place is entered next.
class PlaceExecutor final : public Executor {
 public:
  void Post(std::function<void()> task) override EXCLUDES(mutex_);
  bool waiting() const { return waiting_.load(std::memory_order_acquire); }
  void RunAll() EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::atomic<bool> waiting_{false};  // tasks_ is not empty
};

// The memory engine schedules nothing: it decides inline and nothing waits.
class NoTimer final : public Timer {
 public:
  Id Schedule(SteadyTime, std::function<void()>) override { return 0; }
  void Cancel(Id) override {}
};

class alignas(128) Place {
 public:
  static constexpr size_t kRun = 64;  // requests of one CheckMany that are decided together

  Place(engine::Engine& engine, const Clock& clock, service::PolicyStore& store,
        service::LoopCounters& counters, const service::DeciderOptions& options);

 private:
  friend class Visit;

  engine::ShardLock lock_;
  PlaceExecutor executor_;
  NoTimer timer_;
  std::unique_ptr<engine::EngineSession> session_;
  std::unique_ptr<service::DeciderImpl> decider_;
  std::array<service::Request, kRun> requests_;  // plain checks
};

// The places of a limiter.
class Places {
 public:
  static constexpr size_t kMin = 4;
  static constexpr size_t kMax = 64;

  // Rounded up to a power of two.
  static size_t CountFor(size_t wanted);
  void Add(std::unique_ptr<Place> place) { places_.push_back(std::move(place)); }
  size_t size() const { return places_.size(); }
  Place& operator[](size_t i) const { return *places_[i]; }

 private:
  std::vector<std::unique_ptr<Place>> places_;  // a power of two of them
};

// One thread's stay at a place. Not recursive: nothing that is called during a stay may enter the limiter again.
class Visit {
 public:
  // At the calling thread's own place, or at the next one that is free; waits at its own when none is.
  explicit Visit(const Places& places) : place_(Enter(places)) { Begin(); }
  // At this very place.
  explicit Visit(Place& place) NO_THREAD_SAFETY_ANALYSIS : place_(place) {
    place_.lock_.Lock();
    Begin();
  }
  ~Visit() NO_THREAD_SAFETY_ANALYSIS { place_.lock_.Unlock(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  service::DeciderImpl& decider() { return *place_.decider_; }
  // Plain checks for the visitor to fill: domain, attributes, options and into, which hold what earlier visitors left.
  std::span<service::Request, Place::kRun> requests() { return place_.requests_; }

 private:
  static Place& Enter(const Places& places) NO_THREAD_SAFETY_ANALYSIS {
    const size_t number = ThreadNumber();
    Place& own = places[number & (places.size() - 1)];
    return own.lock_.TryLock() ? own : EnterAnother(places, number);
  }
  static Place& EnterAnother(const Places& places, size_t number) NO_THREAD_SAFETY_ANALYSIS;
  void Begin() {
    if (place_.executor_.waiting()) [[unlikely]]
      place_.executor_.RunAll();
  }
  // Threads are numbered in turn, for life, over all limiters.
  static size_t ThreadNumber();

  Place& place_;
};

}  // namespace penstock::embed
