#include "base/clock.h"

#include <ctime>

namespace penstock {
namespace {

constexpr int64_t kAnchorPeriodUs = 60'000'000;

int64_t ReadUs(clockid_t id) {
  timespec ts;
  clock_gettime(id, &ts);
  return int64_t{ts.tv_sec} * 1'000'000 + ts.tv_nsec / 1'000;
}

}  // namespace

SystemClock::SystemClock() {
  const int64_t boot_us = ReadUs(CLOCK_BOOTTIME);
  offset_us_ = ReadUs(CLOCK_REALTIME) - boot_us;
  next_anchor_us_ = boot_us + kAnchorPeriodUs;
}

EngineTime SystemClock::Now() const {
  const int64_t boot_us = ReadUs(CLOCK_BOOTTIME);
  int64_t offset_us = offset_us_.load(std::memory_order_relaxed);
  int64_t anchor_us = next_anchor_us_.load(std::memory_order_relaxed);
  if (boot_us >= anchor_us && next_anchor_us_.compare_exchange_strong(anchor_us, boot_us + kAnchorPeriodUs,
                                                                      std::memory_order_relaxed)) {
    const int64_t wall_offset_us = ReadUs(CLOCK_REALTIME) - boot_us;
    if (wall_offset_us > offset_us) {  // forward only
      offset_us_.store(wall_offset_us, std::memory_order_relaxed);
      offset_us = wall_offset_us;
    }
  }
  return {boot_us + offset_us};
}

SteadyTime SystemClock::Steady() const { return {ReadUs(CLOCK_MONOTONIC)}; }

void ManualClock::Set(EngineTime now) {
  now_us_.store(now.us, std::memory_order_relaxed);
  int64_t steady_us = steady_us_.load(std::memory_order_relaxed);
  while (now.us > steady_us &&
         !steady_us_.compare_exchange_weak(steady_us, now.us, std::memory_order_relaxed)) {
  }
}

}  // namespace penstock
