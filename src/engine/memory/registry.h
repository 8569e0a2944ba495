// The memory engine's registry: one book under a lock, for all sessions of this process; inline, on the engine's clock.
//
// Thread contract: all methods from any thread; `done` is called on the caller's, with no lock held.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/registry_book.h"

namespace penstock::engine {

class Registry final : public LimitRegistry {
 public:
  explicit Registry(std::function<EngineTime()> now) : now_(std::move(now)) {}

  void Register(std::vector<Claim> claims, RegisterDone done) override EXCLUDES(mutex_);
  void Put(std::string domain, std::string name, std::string definition,
           std::optional<core::Version> if_match, ChangeDone done) override EXCLUDES(mutex_);
  void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
              ChangeDone done) override EXCLUDES(mutex_);
  void Changes(core::Version since, ChangesDone done) override EXCLUDES(mutex_);

  // For the snapshot.
  std::vector<std::pair<std::string, RegistryBook::Entry>> Entries() const EXCLUDES(mutex_);
  // False when it stands there already or there are too many.
  bool Restore(std::string key, RegistryBook::Entry entry) EXCLUDES(mutex_);
  core::Version last() const EXCLUDES(mutex_);
  // No version at or below this is given any more.
  void RaiseLast(core::Version version) EXCLUDES(mutex_);

 private:
  const std::function<EngineTime()> now_;
  mutable Mutex mutex_;
  RegistryBook book_ GUARDED_BY(mutex_);
};

}  // namespace penstock::engine
