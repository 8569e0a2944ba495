#include "engine/redis/backoff.h"

#include <algorithm>

namespace penstock::engine::redis {

Micros Backoff::Next() {
  const Micros wait = std::min(next_, settings_.most);
  next_ = std::min(wait * 2, settings_.most);
  return {random_.Between(wait.count - wait.count / settings_.jitter, wait.count)};
}

}  // namespace penstock::engine::redis
