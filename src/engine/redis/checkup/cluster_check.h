// Whether a cluster has every slot, a replica for each master, and nodes that agree about it.
//
// Thread contract: pure functions over what was read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/server_facts.h"
#include "engine/redis/checkup/value.h"

namespace penstock::checkup {

struct ClusterNode {
  std::string where;  // host:port
  std::string id;
  friend bool operator==(const ClusterNode&, const ClusterNode&) = default;
};
struct SlotRange {
  int32_t first = 0;
  int32_t last = 0;
  ClusterNode master;
  std::vector<ClusterNode> replicas;
};
// CLUSTER SLOTS. An empty host is the one that was asked: `asked`, host:port. What has not the shape is left out.
std::vector<SlotRange> ParseSlots(const Value& reply, std::string_view asked);

// CLUSTER NODES has what CLUSTER SLOTS leaves out: a replica that has not received a byte yet. Each range gets the
// replicas that are up by the former, in place of its own.
void TakeReplicas(std::string_view nodes, std::string_view asked, std::vector<SlotRange>& slots);

// What one node said.
struct ClusterView {
  std::string where;
  bool master = false;
  std::string refused;  // why, where it did not
  std::vector<SlotRange> slots;
  Fields info;  // CLUSTER INFO
};

Finding CheckSlots(const std::vector<ClusterView>& views);            // "cluster-slots"
Finding CheckClusterReplicas(const std::vector<ClusterView>& views);  // "cluster-replicas"
Finding CheckFullCoverage(const Deployment& deployment);              // "cluster-full-coverage"

}  // namespace penstock::checkup
