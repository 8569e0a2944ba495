#include "service/failover/node.h"

namespace penstock::service {

engine::Fleet FailoverNode::fleet() const {
  engine::Fleet fleet = view_.fleet();
  if (!options.fleet_size) return fleet;
  if (!fleet.known || fleet.nodes > *options.fleet_size)
    fleet.index.reset();  // two nodes might have the same
  fleet.nodes = *options.fleet_size;
  fleet.known = true;
  return fleet;
}

FailoverStats FailoverNode::stats() const {
  return {.local_decisions = counters.local_decisions.load(std::memory_order_relaxed),
          .without_share = counters.without_share.load(std::memory_order_relaxed),
          .local_buckets = books.size(),
          .reported_units = counters.reported_units.load(std::memory_order_relaxed),
          .lost_units = counters.lost_units.load(std::memory_order_relaxed),
          .failed_reports = counters.failed_reports.load(std::memory_order_relaxed),
          .fleet = fleet()};
}

std::string FailoverNode::TakeNews() {
  const Reason reason = reason_.load(std::memory_order_relaxed);
  if (reason == told_) return {};
  told_ = reason;
  if (reason == Reason::kNone) return "the engine answers again and was told what was used without it";
  const engine::Fleet now = fleet();
  return "the engine cannot be asked (" + std::string(ToString(reason)) +
         "): limits with on_failure local are decided here, under one of " + std::to_string(now.nodes) +
         " shares; answers say degraded";
}

void FailoverNode::KeepsId(EngineTime until) {
  int64_t known = ids_until_us_.load(std::memory_order_relaxed);
  while (known < until.us &&
         !ids_until_us_.compare_exchange_weak(known, until.us, std::memory_order_relaxed)) {
  }
}

}  // namespace penstock::service
