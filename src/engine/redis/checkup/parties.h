// Who takes part in an engine: its servers and sentinels, found as a node finds them, each with a client of its own.
//
// Thread contract: one thread, which is not the loop's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/redis/checkup/client.h"
#include "engine/redis/checkup/cluster_check.h"
#include "engine/redis/checkup/sentinel_check.h"
#include "engine/redis/options.h"

namespace penstock::checkup {

struct Party {
  std::unique_ptr<Client> client;
  bool replica = false;
  std::string lost;  // why it cannot be asked, where it cannot
};

struct Parties {
  std::vector<Party> servers;  // masters before replicas
  std::vector<Party> sentinels;
  std::vector<SentinelView> sentinel_views;
  std::vector<ClusterView> cluster_views;
  std::string unreachable;  // no master can be asked, and why
};

// redis+sentinel://s1:26379,s2:26379/main: what the options say, without user and password.
std::string EngineText(const engine::redis::Options& options);

Parties FindParties(LoopThread& loop, const engine::redis::Options& options);

}  // namespace penstock::checkup
