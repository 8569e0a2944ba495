#include "base/clock.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace penstock {
namespace {

constexpr int64_t kAnchorPeriodUs = 60'000'000;

int64_t ReadNs(clockid_t id) {
  timespec ts;
  clock_gettime(id, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

int64_t ReadUs(clockid_t id) { return ReadNs(id) / 1'000; }

// Wall - boot time, rounded down. The boot time is read last: a thread that is put to sleep between the two readings
// finds too little, never a clock that is ahead of the wall's; of a few tries the most is the truest.
int64_t WallOffsetUs() {
  int64_t most_ns = std::numeric_limits<int64_t>::min();
  for (int i = 0; i < 4; ++i) {
    const int64_t wall_ns = ReadNs(CLOCK_REALTIME);
    most_ns = std::max(most_ns, wall_ns - ReadNs(CLOCK_BOOTTIME));
  }
  return most_ns / 1'000;
}

}  // namespace

SystemClock::SystemClock()
    : offset_us_(WallOffsetUs()), next_anchor_us_(ReadUs(CLOCK_BOOTTIME) + kAnchorPeriodUs) {}

EngineTime SystemClock::Now() const {
  const int64_t boot_us = ReadUs(CLOCK_BOOTTIME);
  int64_t offset_us = offset_us_.load(std::memory_order_relaxed);
  int64_t anchor_us = next_anchor_us_.load(std::memory_order_relaxed);
  if (boot_us >= anchor_us && next_anchor_us_.compare_exchange_strong(anchor_us, boot_us + kAnchorPeriodUs,
                                                                      std::memory_order_relaxed)) {
    const int64_t wall_offset_us = WallOffsetUs();
    if (wall_offset_us > offset_us) {  // forward only
      offset_us_.store(wall_offset_us, std::memory_order_relaxed);
      offset_us = wall_offset_us;
    }
  }
  return {boot_us + offset_us};
}

SteadyTime SystemClock::Steady() const { return {ReadUs(CLOCK_BOOTTIME)}; }

void ManualClock::Set(EngineTime now) {
  now_us_.store(now.us, std::memory_order_relaxed);
  int64_t steady_us = steady_us_.load(std::memory_order_relaxed);
  while (now.us > steady_us &&
         !steady_us_.compare_exchange_weak(steady_us, now.us, std::memory_order_relaxed)) {
  }
}

}  // namespace penstock
