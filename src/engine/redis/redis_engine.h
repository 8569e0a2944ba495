// The Redis engine: buckets in a Redis or Valkey that many nodes share, decided there by scripts, by its clock. A
// decision takes one round trip and never longer than its deadline; while the store is away it is answered kUnavailable
// at once.
//
// Thread contract: every method may be called from any thread. Sessions may not outlive the engine; bindings (and so
// policies) may.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/redis/asker.h"
#include "engine/redis/fleet.h"
#include "engine/redis/hints.h"
#include "engine/redis/options.h"
#include "engine/redis/script.h"
#include "engine/redis/server_link.h"
#include "engine/redis/topology.h"

namespace penstock::engine::redis {

class RedisEngine final : public Engine {
 public:
  // The clock, which must outlive the engine, serves deadlines; buckets go by the store's own.
  RedisEngine(Options options, const Clock& clock);
  ~RedisEngine() override;

  std::string_view name() const override { return "redis"; }
  std::unique_ptr<EngineSession> OpenLoop(const LoopParts& parts) override;
  Result<void> CanHold(const core::LimitParams& params) const override;
  bool CanHoldPermits() const override { return true; }
  // Some session has a usable connection.
  bool ready() const override { return usable_links_.load(std::memory_order_relaxed) > 0; }
  EngineStats stats() const override;

  const Options& options() const { return options_; }
  const Clock& clock() const { return clock_; }
  std::span<const Script> scripts() const { return scripts_; }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  FleetBook& fleet() { return fleet_; }
  Hints& hints() { return hints_; }
  const Hints& hints() const { return hints_; }
  LinkBook& book() { return book_; }
  const LinkBook& book() const { return book_; }
  TopologyCounters& topology_counters() { return topology_counters_; }
  const TopologyCounters& topology_counters() const { return topology_counters_; }
  std::atomic<int>& usable_links() { return usable_links_; }

 private:
  const Options options_;
  const std::vector<Script> scripts_;
  const Clock& clock_;
  Counters counters_;
  FleetBook fleet_;
  Hints hints_;
  LinkBook book_;
  TopologyCounters topology_counters_;
  std::atomic<int> usable_links_{0};
};

}  // namespace penstock::engine::redis
