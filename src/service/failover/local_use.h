// What a node used of a bucket by itself while the engine could not be asked: how the local bucket begins (its seed),
// and what of its use the engine must be told later. Pure.
//
// All charges named here are for engine::Mode::kAdjust.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/operation.h"
#include "service/failover/seen_table.h"

namespace penstock::service {

// One adjustment of a bucket.
struct Adjustment {
  core::Charge charge;
  int64_t cost = 0;
  core::PermitAsk permit{};  // permits: whose; views what LocalUse keeps
};

// At most two, in their order.
struct Adjustments {
  std::array<Adjustment, 2> items;
  size_t count = 0;

  void Add(const core::Charge& charge, int64_t cost, const core::PermitAsk& permit = {}) {
    items[count++] = {charge, cost, permit};
  }
  std::span<const Adjustment> all() const { return {items.data(), count}; }
};

// Gives an absent bucket under a share's parameters the n-th part of what was seen, rounded up, as of `now`.
Adjustments SeedOf(const core::LimitParams& share, const SeenUse& seen, uint32_t nodes, EngineTime now);

// The book of one local bucket.
class LocalUse {
 public:
  // Instants of a log that are told apart; beyond, neighbours count together, at the later of the two.
  static constexpr size_t kMaxRuns = 64;

  // The bucket's state once its seed was set, under these parameters.
  void Begin(const core::LimitParams& share, const core::BucketState& seed) {
    params_ = share;
    known_ = seed;
  }
  // From now on the bucket is under another share: what is known of it is converted as its use will be.
  void Change(const core::LimitParams& share, EngineTime now);
  // A local decision was taken. Needed for logs, whose runs nobody can read later.
  void Note(const core::LimitParams& share, const core::Charge& charge);
  // A permit was granted locally, as the charge says; it is owed until it is told, given back or expired.
  void NotePermit(const core::PermitAsk& ask, const core::Charge& charge);
  bool OwesPermit(const Hash128& id) const;
  void ForgetPermit(const Hash128& id);
  void RenewPermit(const Hash128& id, EngineTime expires_at);
  // What the engine does not know yet, given the bucket's state now. At most two adjustments, the oldest first; for a
  // log more may follow once these are known.
  Adjustments Owed(const core::LimitParams& share, const core::BucketState& state, EngineTime now);
  // The engine was told an adjustment that Owed gave by that state.
  void Told(const core::LimitParams& share, const core::BucketState& state, const Adjustment& told);

 private:
  struct OwedPermit {
    Hash128 id;
    core::Charge charge;
    std::string holder;
  };

  void Forget(EngineTime before);

  core::LimitParams params_;         // of known_
  core::BucketState known_;          // the local bucket as it would be had it only what the engine knows
  std::vector<core::LogRun> runs_;   // a log: what the engine does not know, by instant
  std::vector<OwedPermit> permits_;  // likewise, by grant
};

}  // namespace penstock::service
