// What all loops of a process have in common while they stand in for an engine that does not answer.
//
// Thread contract: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/hash.h"
#include "base/time.h"
#include "core/limit.h"
#include "engine/fleet.h"
#include "penstock/decision.h"
#include "service/failover/engine_clock.h"
#include "service/failover/local_books.h"
#include "service/failover/local_permits.h"
#include "service/failover/seen_table.h"

namespace penstock::service {

struct FailoverOptions {
  // Nodes among which limits are shared; none: as many as the heartbeats tell.
  std::optional<uint32_t> fleet_size{};
  // Buckets whose last state is remembered from the engine's answers, 32 bytes each.
  size_t seen_buckets = size_t{1} << 20;
  // Buckets decided locally and not yet reported, about 300 bytes each and the key; beyond, requests that need one more
  // are `unavailable`, reason full.
  size_t max_local_buckets = 1'000'000;
  // Of one report to the engine.
  Micros report_timeout = Millis(100);
  // The local engine's clock, where it is one that can be set to the engine's time. Null: both have the same.
  EngineClock* clock = nullptr;
};

struct FailoverStats {
  uint64_t local_decisions = 0;  // requests decided under this node's share
  uint64_t without_share = 0;    // requests that should have been: the fleet unknown, no share, no place
  uint64_t local_buckets = 0;    // not yet reported
  uint64_t reported_units = 0;   // told to the engine since it is back
  uint64_t lost_units = 0;  // that it could not be told: the limit is gone, or another window began meanwhile
  uint64_t failed_reports = 0;  // tried again later
  engine::Fleet fleet;
};

class FailoverNode {
 public:
  FailoverNode(const engine::FleetView& view, const FailoverOptions& settings)
      : options(settings), seen(settings.seen_buckets), books(settings.max_local_buckets), view_(view) {}

  // By the configured size, else by the heartbeats.
  engine::Fleet fleet() const;
  FailoverStats stats() const;
  Hash128 IdentityOf(const core::Limit& limit) const { return hash_key_.Hash(limit.identity); }
  Hash128 NameOf(const Hash128& identity, std::span<const std::string_view> key) const {
    return Combine(identity, hash_key_.HashParts(key));
  }

  // A loop decided locally, or all is told to the engine.
  void Began(Reason reason) {
    if (reason_.load(std::memory_order_relaxed) == Reason::kNone)
      reason_.store(reason, std::memory_order_relaxed);
  }
  void Ended() {
    if (reason_.load(std::memory_order_relaxed) != Reason::kNone)
      reason_.store(Reason::kNone, std::memory_order_relaxed);
  }
  // What a log should say if that has changed since the last call; empty: nothing. One thread calls it, off the
  // decision path.
  std::string TakeNews();

  // A request id is kept by the local engine until then.
  void KeepsId(EngineTime until);
  bool MayKeepIds(EngineTime now) const { return ids_until_us_.load(std::memory_order_relaxed) > now.us; }

  const FailoverOptions options;
  SeenTable seen;
  LocalBooks books;
  LocalPermits permits;
  struct {
    std::atomic<uint64_t> local_decisions{0};
    std::atomic<uint64_t> without_share{0};
    std::atomic<uint64_t> reported_units{0};
    std::atomic<uint64_t> lost_units{0};
    std::atomic<uint64_t> failed_reports{0};
  } counters;

 private:
  const engine::FleetView& view_;
  const HashKey hash_key_ = HashKey::Random();
  std::atomic<Reason> reason_{Reason::kNone};  // why this node decides locally; kNone: it does not
  std::atomic<int64_t> ids_until_us_{0};
  Reason told_ = Reason::kNone;  // by TakeNews
};

}  // namespace penstock::service
