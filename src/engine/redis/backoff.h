// A wait between attempts that doubles between two bounds, a part of it by chance, so that a fleet's nodes do not come
// in step.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/time.h"

namespace penstock::engine::redis {

class Backoff {
 public:
  struct Settings {
    Micros least{};
    Micros most{};
    int64_t jitter = 4;  // a wait is shorter by up to one part in so many
    uint64_t seed = 0;
  };
  explicit Backoff(const Settings& settings)
      : settings_(settings), random_(settings.seed), next_(settings.least) {}

  Micros Next();
  void Reset() { next_ = settings_.least; }

 private:
  const Settings settings_;
  Random random_;
  Micros next_;
};

}  // namespace penstock::engine::redis
