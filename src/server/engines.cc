#include "server/engines.h"

#include <string>
#include <utility>

#include "base/log.h"

namespace penstock::server {

Result<std::unique_ptr<Engines>> Engines::Open(const config::EngineOptions& options, bool discard_snapshot,
                                               const Clock& clock) {
  std::unique_ptr<Engines> engines(new Engines);
  const service::EngineSettings settings{.url = options.url,
                                         .prefix = options.prefix,
                                         .max_keys = static_cast<uint64_t>(options.max_keys),
                                         .fleet_size = options.fleet_size};
  Result<std::unique_ptr<service::EngineSet>> set = service::EngineSet::Open(settings, clock);
  if (!set) return Fail(set.error().kind, "engine.url: " + set.error().message);
  engines->set_ = *std::move(set);
  if (!options.snapshot) return engines;
  if (engines->set_->remote()) {
    Log(LogLevel::kWarning,
        "engine.snapshot is the memory engine's; the store at engine.url keeps its own state");
    return engines;
  }
  engines->snapshot_path_ = options.snapshot->path;
  if (Result<void> loaded = engines->LoadSnapshot(settings, discard_snapshot, clock); !loaded) {
    return tl::unexpected(std::move(loaded.error()));
  }
  return engines;
}

Result<void> Engines::LoadSnapshot(const service::EngineSettings& settings, bool discard,
                                   const Clock& clock) {
  Result<engine::SnapshotLock> lock = engine::SnapshotLock::Take(snapshot_path_);
  if (!lock) return tl::unexpected(std::move(lock.error()));
  snapshot_lock_ = std::move(*lock);
  Result<void> loaded = set_->memory().LoadSnapshot(snapshot_path_);
  if (loaded) {
    Log(LogLevel::kInfo, "snapshot '" + snapshot_path_ + "' loaded");
    return {};
  }
  if (loaded.error().kind == ErrorKind::kNotFound) return {};
  if (loaded.error().kind != ErrorKind::kInvalid) return loaded;  // not read: nobody knows what stands in it
  if (!discard) {
    loaded.error().message += " (--discard-snapshot begins without it)";
    return loaded;
  }
  Log(LogLevel::kWarning, "snapshot discarded: " + loaded.error().message);
  // The other one may have taken half of it.
  set_->ReplaceMemory(settings, clock);
  return {};
}

Result<void> Engines::SaveSnapshot() {
  return snapshot_lock_ ? set_->memory().SaveSnapshot(snapshot_path_) : Result<void>{};
}

}  // namespace penstock::server
