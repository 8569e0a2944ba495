// std::mutex with clang's thread-safety annotations, so that "which lock guards what" is checked at compile time.
#pragma once

#include <mutex>

#if defined(__clang__)
#define PENSTOCK_TSA(x) __attribute__((x))
#else
#define PENSTOCK_TSA(x)
#endif

#define GUARDED_BY(m) PENSTOCK_TSA(guarded_by(m))
#define REQUIRES(...) PENSTOCK_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PENSTOCK_TSA(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS PENSTOCK_TSA(no_thread_safety_analysis)

namespace penstock {

class PENSTOCK_TSA(capability("mutex")) Mutex {
 public:
  void Lock() PENSTOCK_TSA(acquire_capability()) { mutex_.lock(); }
  void Unlock() PENSTOCK_TSA(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class PENSTOCK_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PENSTOCK_TSA(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() PENSTOCK_TSA(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace penstock
