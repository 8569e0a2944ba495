// A load generator for a server: many connections on one thread, each with a pipeline of requests, and the time from
// the sending of a pipeline to each of its answers.
//
// Thread contract: RunLoad blocks its caller; one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/result.h"
#include "latencies.h"
#include "net/endpoint.h"

namespace penstock::app {

enum class LoadProtocol : unsigned char { kResp, kHttp };

struct LoadOptions {
  LoadProtocol protocol = LoadProtocol::kResp;
  Endpoint target;
  std::string token;
  uint32_t connections = 50;
  uint32_t pipeline = 1;
  uint64_t requests = 0;  // 0: as many as the duration allows
  int64_t duration_ms = 5'000;
  uint64_t keys = 100'000;  // random ones, bench:0 … bench:(keys - 1)
  int64_t burst = 15;       // of the limit that every key has: burst, count per period
  int64_t count = 30;
  int64_t period_s = 60;
  uint64_t seed = 1;
};

struct LoadReport {
  uint64_t allowed = 0;
  uint64_t denied = 0;
  uint64_t errors = 0;  // answers that are neither
  int64_t elapsed_us = 0;
  Latencies latencies;

  uint64_t answers() const { return allowed + denied + errors; }
};

// `watch` hears of the share done (0 to 1) and the answers so far. An Error: the server cannot be reached, closes, or
// speaks something else.
Result<LoadReport> RunLoad(const LoadOptions& options, const std::function<void(double, uint64_t)>& watch);

}  // namespace penstock::app
