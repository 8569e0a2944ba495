#include "engine/redis/topology.h"

#include <utility>

#include "engine/redis/cluster.h"
#include "engine/redis/sentinel.h"
#include "engine/redis/single.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

std::unique_ptr<Topology> OpenTopology(const LinkParts& parts, const Options& options,
                                       TopologyCounters* counters) {
  static TopologyCounters nobodys;
  OpenLink open_link = [parts, &options](const DialTarget& target, LinkOwner& owner) {
    return OpenServerLink(parts, target, options, owner);
  };
  TopologyParts own{parts.timer, parts.clock, parts.dialer, std::move(open_link),
                    counters == nullptr ? nobodys : *counters};
  switch (options.topology) {
    case TopologyKind::kSentinel:
      return std::make_unique<SentinelTopology>(std::move(own), options);
    case TopologyKind::kCluster:
      return std::make_unique<ClusterTopology>(std::move(own), options);
    case TopologyKind::kSingle:
      break;
  }
  return std::make_unique<SingleTopology>(std::move(own), options);
}

}  // namespace penstock::engine::redis
