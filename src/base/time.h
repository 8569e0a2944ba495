// Strong types for time. A duration is Micros; an instant carries the clock it was read from, so that the engine's
// clock (which counts, rule E5) and the process's monotonic clock (which bounds waiting) cannot be mixed.
// All are int64 microseconds, trivially copyable and free of any library.
#pragma once

#include <compare>
#include <cstdint>

namespace penstock {

struct Micros {
  int64_t count = 0;

  friend constexpr auto operator<=>(Micros, Micros) = default;
  friend constexpr Micros operator+(Micros a, Micros b) { return {a.count + b.count}; }
  friend constexpr Micros operator-(Micros a, Micros b) { return {a.count - b.count}; }
  friend constexpr Micros operator*(Micros a, int64_t n) { return {a.count * n}; }
};

constexpr Micros Millis(int64_t ms) { return {ms * 1'000}; }
constexpr Micros Seconds(int64_t s) { return {s * 1'000'000}; }

// Milliseconds and seconds for people and protocols: a wait is never told shorter than it is (rule E3).
constexpr int64_t CeilMillis(Micros d) { return d.count / 1'000 + (d.count % 1'000 > 0 ? 1 : 0); }
constexpr int64_t CeilSeconds(Micros d) { return d.count / 1'000'000 + (d.count % 1'000'000 > 0 ? 1 : 0); }

template <class ClockTag>
struct TimePoint {
  int64_t us = 0;

  friend constexpr auto operator<=>(TimePoint, TimePoint) = default;
  friend constexpr TimePoint operator+(TimePoint t, Micros d) { return {t.us + d.count}; }
  friend constexpr TimePoint operator-(TimePoint t, Micros d) { return {t.us - d.count}; }
  friend constexpr Micros operator-(TimePoint a, TimePoint b) { return {a.us - b.us}; }
};

// Engine time: microseconds since the Unix epoch by the clock of the store that holds the buckets.
using EngineTime = TimePoint<struct EngineClockTag>;
// Monotonic time of this process; its zero means nothing.
using SteadyTime = TimePoint<struct SteadyClockTag>;

}  // namespace penstock
