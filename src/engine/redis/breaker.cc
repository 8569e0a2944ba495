#include "engine/redis/breaker.h"

#include <algorithm>

namespace penstock::engine::redis {

Micros Breaker::NextDelay() {
  constexpr int kMostDoublings = 20;
  const int64_t grown = settings_.least.count << std::min(attempts_, kMostDoublings);
  attempts_ = std::min(attempts_ + 1, kMostDoublings);
  const int64_t delay = std::min(grown, settings_.most.count);
  return {delay - static_cast<int64_t>(random_.Below(static_cast<uint64_t>(delay / 2) + 1))};
}

}  // namespace penstock::engine::redis
