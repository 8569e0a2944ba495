// The server's engine, and the memory engine's snapshot with the lock that keeps other processes off it.
//
// Thread contract: opened and destroyed on the main thread while no loop runs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/settings.h"
#include "engine/memory/snapshot_lock.h"
#include "service/engine_set.h"

namespace penstock::server {

class Engines {
 public:
  // `discard_snapshot`: begin empty where the snapshot is damaged or of a newer version. The clock outlives this.
  static Result<std::unique_ptr<Engines>> Open(const config::EngineOptions& options, bool discard_snapshot,
                                               const Clock& clock);

  service::EngineSet& set() { return *set_; }
  engine::Engine& engine() { return set_->engine(); }
  const engine::Engine& engine() const { return set_->engine(); }
  // Fine where there is no snapshot.
  Result<void> SaveSnapshot();
  bool has_snapshot() const { return snapshot_lock_.has_value(); }

 private:
  Engines() = default;
  Result<void> LoadSnapshot(const service::EngineSettings& settings, bool discard, const Clock& clock);

  std::string snapshot_path_;
  std::optional<engine::SnapshotLock> snapshot_lock_;  // held for the process's life
  std::unique_ptr<service::EngineSet> set_;
};

}  // namespace penstock::server
