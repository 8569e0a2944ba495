// How long the engine takes, beside the time-out of a decision.
//
// Thread contract: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/redis/checkup/report.h"

namespace penstock::checkup {

struct Percentiles {
  size_t count = 0;
  int64_t p50_us = 0;
  int64_t p99_us = 0;
  int64_t p999_us = 0;
  int64_t max_us = 0;
};
// By rank: p99 is the smallest value that at least 99 % of all do not pass. Sorts the values.
Percentiles PercentilesOf(std::vector<int64_t>& microseconds);
// p50 0.110 ms, p99 0.201 ms, p99.9 0.340 ms, max 1.200 ms
std::string Text(const Percentiles& percentiles);

struct ServerLatency {
  std::string where;
  Percentiles ping;
};
struct DecisionLatency {
  Percentiles answered;      // of those that were decided
  uint64_t unavailable = 0;  // not answered within the time-out
};
// "latency"
Finding CheckLatency(const std::vector<ServerLatency>& servers, const DecisionLatency& decisions,
                     Micros timeout);

}  // namespace penstock::checkup
