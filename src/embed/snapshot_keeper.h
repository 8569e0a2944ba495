// Writes an embedded limiter's snapshot at an interval, on a thread of its own, and once more at its end.
//
// Thread contract: construction and destruction by one thread; the engine and the path must outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "engine/memory/memory_engine.h"

namespace penstock::embed {

class SnapshotKeeper {
 public:
  SnapshotKeeper(engine::MemoryEngine& engine, std::string path, std::chrono::milliseconds every);
  // Stops the thread, then writes the last snapshot.
  ~SnapshotKeeper();
  SnapshotKeeper(const SnapshotKeeper&) = delete;
  SnapshotKeeper& operator=(const SnapshotKeeper&) = delete;

 private:
  void Run();
  void Save();

  engine::MemoryEngine& engine_;
  const std::string path_;
  const std::chrono::milliseconds every_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace penstock::embed
