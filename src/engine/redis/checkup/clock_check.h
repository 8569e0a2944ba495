// The servers' clocks: limits go by them (rule E5), so a step of one, or a jump when another takes over, gives or takes
// time.
//
// Thread contract: pure function over what was read.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/redis/checkup/report.h"

namespace penstock::checkup {

// One answer to TIME. The server read its clock somewhere between the two instants.
struct ClockSample {
  EngineTime server;
  SteadyTime sent;
  SteadyTime received;
};

struct ServerClock {
  std::string where;
  bool replica = false;
  std::vector<ClockSample> samples;  // in order
};

// `wall_at_zero` is our own wall clock when the steady clock was zero. "clock"
Finding CheckClocks(std::span<const ServerClock> clocks, EngineTime wall_at_zero);

}  // namespace penstock::checkup
