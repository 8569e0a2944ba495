// A real failover, and how long decisions were unavailable.
//
// Thread contract: one thread, which is not the loop's.
#pragma once

#include "engine/redis/checkup/parties.h"
#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/scratch.h"
#include "engine/redis/options.h"

namespace penstock::checkup {

// "failover". Not `wanted`: says so, and does nothing.
Finding CheckFailover(Parties& parties, const engine::redis::Options& options, const ScratchParts& scratch,
                      bool wanted);

}  // namespace penstock::checkup
