// Ad hoc limits: a caller's own rate for a key of its own, without policy. All of one algorithm and window kind share
// one name space of keys, so the last caller's parameters hold for a key and its use is carried (rule E6). Compiling
// a rate costs far more than a decision, so each event loop keeps the limits that it used lately, at most kEntries.
//
// Thread contract: one event loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "core/limit.h"
#include "engine/engine.h"
#include "service/limit_info.h"

namespace penstock::service {

class AdHocCache {
 public:
  static constexpr size_t kEntries = 1'024;

  struct Entry {
    core::RateSpec spec;
    core::Limit limit;
    LimitInfo info;

   private:
    friend class AdHocCache;
    bool bound_ = false;      // the engine had a place for it
    uint32_t uses_ = 0;       // Use without Unuse yet: requests under way
    bool dropped_ = false;    // no longer found; goes with its last use
    Entry* chain_ = nullptr;  // next of the same hash
    Entry* newer_ = nullptr;  // neighbours in the order of use
    Entry* older_ = nullptr;
  };

  // Both must outlive the cache.
  AdHocCache(const engine::Engine& engine, engine::EngineSession& session);
  ~AdHocCache();
  AdHocCache(const AdHocCache&) = delete;
  AdHocCache& operator=(const AdHocCache&) = delete;

  // The limit that was found last, if it is this spec's; else null. Callers mostly repeat themselves.
  Entry* Newest(const core::RateSpec& spec) {
    return newest_ != nullptr && Same(newest_->spec, spec) ? newest_ : nullptr;
  }
  // The bound limit for the spec, or why there can be none. Valid until the next Find, or while in use.
  Result<Entry*> Find(const core::RateSpec& spec);
  void Use(Entry& entry) { ++entry.uses_; }
  void Unuse(Entry& entry) {
    if (--entry.uses_ == 0 && entry.dropped_) [[unlikely]]
      delete &entry;
  }

  size_t size() const { return size_; }
  uint64_t compiled() const { return compiled_; }

 private:
  static bool Same(const core::RateSpec& a, const core::RateSpec& b) {
    return a.count == b.count && a.period == b.period && a.burst == b.burst && a.algorithm == b.algorithm &&
           a.window == b.window && a.kind == b.kind;
  }
  static size_t Bucket(const core::RateSpec& spec);
  Result<std::unique_ptr<Entry>> Compile(const core::RateSpec& spec);
  void Unlink(Entry& entry);
  void LinkNewest(Entry& entry);
  void DropOldest();
  void ForgetUnbound();

  const engine::Engine& engine_;
  engine::EngineSession& session_;
  // Invariant: every entry that is not dropped stands in exactly one chain of buckets_ and in the list from newest_
  // to oldest_; size_ counts them.
  std::array<Entry*, kEntries> buckets_{};
  Entry* newest_ = nullptr;
  Entry* oldest_ = nullptr;
  size_t size_ = 0;
  // The last one that the engine had no place for. It stands nowhere else: who asks again may find a place.
  Entry* unbound_ = nullptr;
  uint64_t compiled_ = 0;
};

}  // namespace penstock::service
