// The permits that this node granted by itself: where each is held, here and in the engine's own words, so that its owner
// may give it back or renew it by the id he has, before the engine was told of it and after.
//
// Thread contract: LocalPermits is for any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/time.h"
#include "engine/permit_call.h"

namespace penstock::service {

struct LocalPermit {
  struct Place {
    Hash128 book;                // of its bucket in LocalBooks
    engine::PermitPlace local;   // as the local engine has it
    engine::PermitPlace remote;  // as the engine will have it
  };
  uint32_t weight = 1;
  uint8_t size = 0;
  std::array<Place, engine::kMaxPermitBuckets> places{};
  EngineTime known_until{};  // a lease after its expiry
};

class LocalPermits {
 public:
  static constexpr size_t kMax =
      65'536;  // kept at once; beyond, the oldest that are past, else the new one is not kept

  void Add(const Hash128& id, const LocalPermit& permit, EngineTime now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (permits_.size() >= sweep_at_) {
      std::erase_if(permits_, [now](const auto& entry) { return entry.second.known_until <= now; });
      sweep_at_ = std::max(kMinSweep, 2 * permits_.size());
    }
    if (permits_.size() < kMax) permits_[id] = permit;
  }
  std::optional<LocalPermit> Find(const Hash128& id) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = permits_.find(id);
    return found == permits_.end() ? std::nullopt : std::optional(found->second);
  }
  void Renew(const Hash128& id, EngineTime known_until) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = permits_.find(id);
    if (found != permits_.end()) found->second.known_until = std::max(found->second.known_until, known_until);
  }

 private:
  static constexpr size_t kMinSweep = 1'024;
  struct Hasher {
    size_t operator()(const Hash128& id) const { return id.low; }
  };

  Mutex mutex_;
  std::unordered_map<Hash128, LocalPermit, Hasher> permits_ GUARDED_BY(mutex_);
  size_t sweep_at_ GUARDED_BY(mutex_) = kMinSweep;
};

}  // namespace penstock::service
