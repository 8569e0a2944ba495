// Small exact arithmetic that every algorithm shares: ticks, rounding, and the clamp of waits. All operands are
// non-negative unless a function says otherwise.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "core/params.h"

namespace penstock::core {

// No wait, reset or life of a bucket is told longer than this (142 years); only debt by force reaches it.
inline constexpr int64_t kMaxSpanMicros = kMaxExact;

constexpr int64_t CeilDiv(int64_t dividend, int64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

// a * b; any number above kMaxExact stands for one that is too large.
constexpr int64_t BoundedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMaxExact + 1 : product;
}

// A tick is 1 us, 1 ms or 1 s: written out so that the compiler divides by constants.
constexpr int64_t TickIndex(int64_t us, Micros tick) {
  if (tick.count == 1) [[likely]]
    return us;
  return tick.count == 1'000 ? us / 1'000 : us / 1'000'000;
}

// The instant at which `ticks` more ticks than at `from` have begun, at most kMaxSpanMicros after `from`.
constexpr EngineTime AfterTicks(EngineTime from, int64_t ticks, Micros tick) {
  const EngineTime latest = from + Micros{kMaxSpanMicros};
  if (ticks > TickIndex(kMaxSpanMicros, tick)) return latest;
  const EngineTime at{(TickIndex(from.us, tick) + ticks) * tick.count};
  return std::min(at, latest);
}

constexpr EngineTime Later(EngineTime a, EngineTime b) { return std::max(a, b); }

}  // namespace penstock::core
