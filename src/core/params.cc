#include "core/params.h"

#include <numeric>
#include <string>

#include "core/ticks.h"
#include "penstock/request.h"

namespace penstock::core {
namespace {

constexpr Micros kTicks[] = {{1}, {1'000}, {1'000'000}};  // finest first
constexpr int64_t kMaxWaitMicros = kMaxWaitMs * 1'000;    // what max_wait may reserve (rule E8)
constexpr int64_t kDayMicros = 86'400'000'000;

Micros NominalPeriod(WindowKind kind) {
  switch (kind) {
    case WindowKind::kDay:
      return {kDayMicros};
    case WindowKind::kWeek:
      return {7 * kDayMicros};
    case WindowKind::kMonth:
      return {30 * kDayMicros};
    default:
      return {365 * kDayMicros};
  }
}

Result<LimitParams> CompileBucket(LimitParams params, int64_t burst) {
  params.capacity = burst;
  for (const Micros tick : kTicks) {
    if (params.period.count % tick.count != 0) break;
    const int64_t ticks = params.period.count / tick.count;
    const int64_t divisor = std::gcd(params.count, ticks);
    params.tick = tick;
    params.drain = params.count / divisor;
    params.unit_cost = ticks / divisor;
    const int64_t full = BoundedProduct(burst, params.unit_cost);
    const int64_t reserved = BoundedProduct(params.drain, kMaxWaitMicros / tick.count);
    if (reserved > kMaxExact - full) continue;
    if (CeilDiv(full, params.drain) > kMaxSpanMicros / tick.count) {
      return Invalid("burst takes more than 142 years to refill at this rate");
    }
    return params;
  }
  return Invalid("count, period and burst are too large together to be counted exactly");
}

Result<LimitParams> CompileSlidingWindow(LimitParams params) {
  for (const Micros tick : kTicks) {
    if (params.period.count % tick.count != 0) break;
    params.tick = tick;
    if (BoundedProduct(params.count, 2 * (params.period.count / tick.count)) <= kMaxExact) return params;
  }
  return Invalid("count and period are too large together to be counted exactly");
}

Result<LimitParams> CompilePermits(const LimitParams& params) {
  if (params.count > kMaxCost) return Invalid("permits must be at most " + std::to_string(kMaxCost));
  if (params.period < kMinLease || params.period > kMaxLease) return Invalid("lease must be 100ms to 24h");
  return params;
}

}  // namespace

std::string_view ToString(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kTokenBucket:
      return "token_bucket";
    case Algorithm::kFixedWindow:
      return "fixed_window";
    case Algorithm::kSlidingWindow:
      return "sliding_window";
    case Algorithm::kSlidingLog:
      return "sliding_log";
    case Algorithm::kPermits:
      return "permits";
  }
  return "";
}

std::string_view ToString(WindowKind window) {
  switch (window) {
    case WindowKind::kEpoch:
      return "epoch";
    case WindowKind::kFirstRequest:
      return "first_request";
    case WindowKind::kDay:
      return "day";
    case WindowKind::kWeek:
      return "week";
    case WindowKind::kMonth:
      return "month";
    case WindowKind::kYear:
      return "year";
  }
  return "";
}

Result<LimitParams> CompileRate(const RateSpec& spec) {
  const bool fixed = spec.algorithm == Algorithm::kFixedWindow;
  if (!fixed && spec.window != WindowKind::kEpoch)
    return Invalid("only a fixed window has a calendar or a first request");
  LimitParams params{.algorithm = spec.algorithm, .window = spec.window, .kind = spec.kind};
  if (spec.kind != RateKind::kFinite) return params;
  if (spec.count < 1) return Invalid("count must be 1 or more");
  if (spec.count > kMaxExact) return Invalid("count must be at most " + std::to_string(kMaxExact));
  params.count = params.capacity = spec.count;
  params.period = IsCalendar(spec.window) ? NominalPeriod(spec.window) : spec.period;
  if (params.period.count < 1) return Invalid("period must be 1 us or more");
  if (params.period.count > kMaxSpanMicros) return Invalid("period must be at most 142 years");
  if (spec.algorithm == Algorithm::kTokenBucket) {
    const int64_t burst = spec.burst.value_or(spec.count);
    if (burst < 1) return Invalid("burst must be 1 or more");
    return CompileBucket(params, burst);
  }
  if (spec.burst) return Invalid("only a token bucket has a burst");
  if (spec.algorithm == Algorithm::kSlidingWindow) return CompileSlidingWindow(params);
  if (spec.algorithm == Algorithm::kPermits) return CompilePermits(params);
  if (spec.algorithm == Algorithm::kSlidingLog && spec.count > kMaxLogCount) {
    return Invalid("the count of a sliding log must be at most " + std::to_string(kMaxLogCount));
  }
  return params;
}

}  // namespace penstock::core
