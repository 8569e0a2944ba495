#include "embed/snapshot_keeper.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace penstock::embed {
namespace {

// "Never" as a caller may write it would pass the end of the clock when it is added to now.
constexpr std::chrono::milliseconds kLongestInterval = std::chrono::hours(24 * 365);

}  // namespace

SnapshotKeeper::SnapshotKeeper(engine::MemoryEngine& engine, std::string path,
                               std::chrono::milliseconds every)
    : engine_(engine),
      path_(std::move(path)),
      every_(std::min(every, kLongestInterval)),
      thread_([this] { Run(); }) {}

SnapshotKeeper::~SnapshotKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  Save();
}

void SnapshotKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, every_, [this] { return stop_; })) {
    lock.unlock();
    Save();
    lock.lock();
  }
}

void SnapshotKeeper::Save() {
  if (const Result<void> saved = engine_.SaveSnapshot(path_); !saved) {
    Log(LogLevel::kError, "snapshot: " + saved.error().message);
  }
}

}  // namespace penstock::embed
