// Waits as the protocols tell them: whole milliseconds or seconds, rounded up (rule E3), and "never" as no number.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "penstock/decision.h"

namespace penstock::api {

inline int64_t ToCeilMs(std::chrono::microseconds d) { return CeilMillis({d.count()}); }
inline int64_t ToCeilSeconds(std::chrono::microseconds d) { return CeilSeconds({d.count()}); }

// What a permit's owner may rely on is rounded down.
inline int64_t ToFloorMs(std::chrono::microseconds d) { return d.count() / 1'000; }

inline std::optional<int64_t> RetryAfterMs(const Decision& decision) {
  if (!decision.retry_after) return std::nullopt;
  return ToCeilMs(*decision.retry_after);
}
inline std::optional<int64_t> RetryAfterMs(const LimitDecision& limit) {
  if (limit.outcome == Outcome::kNever || limit.outcome == Outcome::kUnavailable) return std::nullopt;
  return ToCeilMs(limit.retry_after);
}

}  // namespace penstock::api
