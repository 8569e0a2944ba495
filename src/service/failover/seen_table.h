// What this node last saw of buckets, from the engine's answers: where a local bucket begins when the engine is gone.
// A bounded table; a bucket that finds no place pushes out the one of its few neighbours that was seen longest ago.
//
// Thread contract: any thread; the entries have locks by stripe, held for a few loads and stores.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/hash.h"
#include "base/time.h"
#include "core/operation.h"
#include "engine/memory/shard_lock.h"

namespace penstock::service {

// The use of a bucket in whole units of cost, a begun one counted whole, so that it does not depend on parameters.
struct SeenUse {
  EngineTime
      stamp;  // token bucket: `used` is true at it; else as core::BucketState has it (permits: latest expiry)
  int64_t used = 0;    // a log: all of it as if spent at the newest instant
  int64_t before = 0;  // sliding window: in the window before

  friend bool operator==(const SeenUse&, const SeenUse&) = default;
};

// By the verdict of a decision that was taken at `now`; a sliding window's by its edit, which no engine leaves out.
SeenUse UseOf(const core::Operation& operation, EngineTime now);

class SeenTable {
 public:
  // Rounded up to a power of two; 32 bytes each, which are not touched before they are needed. 0: nothing is kept.
  explicit SeenTable(size_t entries);

  // The name is a keyed hash. A use of none is forgotten.
  void Note(const Hash128& name, const SeenUse& use);
  std::optional<SeenUse> Find(const Hash128& name) const;

 private:
  static constexpr size_t kWays = 4;
  static constexpr size_t kStripes = 256;

  // Empty: `used` and `before` are 0.
  struct Entry {
    uint64_t tag;
    SeenUse use;
  };
  struct alignas(64) Stripe {
    engine::ShardLock lock;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  static bool IsEmpty(const Entry& entry) { return entry.use.used == 0 && entry.use.before == 0; }
  size_t SetOf(const Hash128& name) const { return name.low & set_mask_; }

  size_t set_mask_ = 0;
  std::unique_ptr<Entry[], Free> entries_;  // kWays for a set; guarded by the set's stripe
  mutable std::array<Stripe, kStripes> stripes_;
};

}  // namespace penstock::service
