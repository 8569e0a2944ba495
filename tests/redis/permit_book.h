// The judge of a test in which many hold permits of a real store: what the holders were told and did, looked at when all
// is over. It knows two clocks: the engine's, by which a permit expires, and the holders' own, by which each believes that
// it still holds.
//
// Where an instant is known within bounds only, that one is taken which accuses nobody falsely: a permit begins when the
// engine said so, and ends when its release was sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace penstock::fixtures {

// What one permit took of one bucket.
struct Stay {
  size_t bucket = 0;
  int64_t weight = 1;
  int64_t fence = 0;
  SteadyTime asked;    // when the request was sent
  SteadyTime begins;   // when its answer was read
  SteadyTime ends;     // the holder's own deadline, or when he began to give it back
  EngineTime granted;  // by the engine
  EngineTime expires;  // likewise; or when the release was sent
};

// A holder's own deadline: from before he sent on.
inline SteadyTime OwnDeadline(SteadyTime sent, Micros lease) {
  const Micros margin = std::max(Millis(50), Micros{lease.count / 20});
  return sent + (lease - margin);
}

struct Verdicts {
  int64_t most_by_engine = 0;   // the most weight that was held at one instant, by the engine's expiries
  int64_t most_by_holders = 0;  // by what the holders believed
  std::string wrong_fences;     // what is wrong with the order of the bucket's fences; empty: nothing
};

// Over the stays in one bucket.
Verdicts Judge(std::vector<Stay> stays);

}  // namespace penstock::fixtures
