// The limiter in this process, as an embedded caller has it: threads that each have a session of one memory engine
// and decide random keys in batches.
//
// Thread contract: RunEmbedded blocks its caller.
#pragma once

#include <functional>

#include "load.h"

namespace penstock::app {

// Of the options counts what does not speak of a server; `pipeline` is the batch. `watch` as RunLoad's.
Result<LoadReport> RunEmbedded(const LoadOptions& options, uint32_t threads,
                               const std::function<void(double, uint64_t)>& watch);

}  // namespace penstock::app
