// What stands behind a Limiter. Inside src/embed and its tests only; the opener is how a test or a benchmark gives the
// limiter a clock that it moves itself.
//
// Thread contract: as Limiter's (penstock/limiter.h): any thread but for the constructor and the destructor.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "embed/place.h"
#include "embed/remote.h"
#include "embed/snapshot_keeper.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/snapshot_lock.h"
#include "penstock/limiter.h"
#include "service/engine_set.h"
#include "service/limit_keeper.h"
#include "service/metrics.h"
#include "service/policy_store.h"

namespace penstock {

class Limiter::Impl {
 public:
  // `clock` null: the system's.
  Impl(const LimiterOptions& options, const Clock* clock);

  // Loads the snapshot, then the policy. Before the first check.
  Result<void> Start();

  const embed::Places& places() const { return places_; }
  Decision Decide(const service::Request& request);
  Result<void> Load(std::string_view text, std::string_view name) EXCLUDES(reload_mutex_);
  Result<void> LoadFile(const std::string& path) EXCLUDES(reload_mutex_);

  const LimiterOptions& options() const { return options_; }
  engine::Engine& engine() { return engines_->engine(); }
  engine::MemoryEngine& memory() { return engines_->memory(); }
  // Null: the engine is in this process.
  embed::Remote* remote() { return remote_.get(); }
  Acquired Acquire(service::Request request) EXCLUDES(own_mutex_);
  const service::Metrics& metrics() const { return metrics_; }

 private:
  Result<void> LoadSnapshot();
  Result<void> StartKeeper();
  void OpenPlaces();
  Result<void> CheckOptionsMakeSense() const;
  service::EngineSettings Settings() const;
  Result<void> OpenRemote();
  policy::BuildOptions Holdable();
  // The loops on which permits are waited for and kept: the store's, or one for the engine in this process, which starts
  // with the first permit. Null: it could not be started.
  embed::Remote* PermitLoops() EXCLUDES(own_mutex_);

  // Constant after Start. The order is that of construction: what stands below uses what stands above.
  const LimiterOptions options_;
  const SystemClock system_clock_;
  const Clock& clock_;
  service::Metrics metrics_;
  service::PolicyStore store_;
  std::unique_ptr<service::EngineSet> engines_;
  std::unique_ptr<engine::EngineSession> reload_session_;
  std::optional<service::LimitKeeper>
      limits_;  // under reload_mutex_; what a server's snapshot brings is in force here too
  embed::Places places_;
  std::unique_ptr<embed::Remote> remote_;
  std::optional<engine::SnapshotLock> snapshot_lock_;  // until the keeper's last snapshot is written
  std::unique_ptr<embed::SnapshotKeeper> keeper_;
  Mutex own_mutex_;
  // Below the keeper: what it gives back at the end, the last snapshot does not have any more.
  std::unique_ptr<embed::Remote> own_loop_ GUARDED_BY(own_mutex_);

  Mutex reload_mutex_;                             // one reload at a time
  bool loaded_ GUARDED_BY(reload_mutex_) = false;  // a policy, at least once
};

class LimiterOpener {
 public:
  static Expected<Limiter> Open(const LimiterOptions& options, const Clock* clock);
};

}  // namespace penstock
