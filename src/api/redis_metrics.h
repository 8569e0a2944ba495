// What the Redis engine counts, as text for Prometheus: its connections and breakers by server, what it sent elsewhere or
// took back, and the hints that it heard.
//
// Thread contract: a plain function; what it reads is for any thread.
#pragma once

#include <string>

#include "engine/redis/asker.h"
#include "engine/redis/hints.h"
#include "engine/redis/link_stats.h"
#include "engine/redis/topology.h"

namespace penstock::api {

void AppendRedisMetrics(std::string& out, const engine::redis::LinkBook& book,
                        const engine::redis::TopologyCounters& topology,
                        const engine::redis::Counters& counters, const engine::redis::HintStats& hints);

}  // namespace penstock::api
