// What a decision needs of a limit beside core::Limit: names that outlive the policy, and what would cost a division.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "core/params.h"

namespace penstock::service {

struct LimitInfo {
  std::string_view name;             // lasting (names.h)
  std::string_view unit;             // lasting
  std::chrono::microseconds window;  // time to refill the whole capacity
  uint32_t slot = 0;                 // of its counters (metrics.h)
};

// The period, except where a token bucket's burst is not its count; rounded up.
std::chrono::microseconds RefillTime(const core::LimitParams& params);

}  // namespace penstock::service
