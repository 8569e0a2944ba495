// Checks of settings: whether a Redis that is configured so would lose limits, or refuse to decide.
//
// Thread contract: pure functions.
#pragma once

#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/server_facts.h"

namespace penstock::checkup {

Finding CheckVersion(const Deployment& deployment);   // "version"
Finding CheckEviction(const Deployment& deployment);  // "eviction": maxmemory-policy
Finding CheckMemory(const Deployment& deployment);    // "memory": maxmemory, and how near it is
Finding CheckPersistence(
    const Deployment& deployment);  // "persistence": save, appendonly, and whether they work
Finding CheckConnections(const Deployment& deployment);  // "connections": maxclients, timeout
Finding CheckReplication(
    const Deployment& deployment);  // "replication": min-replicas-to-write, replica-read-only

}  // namespace penstock::checkup
