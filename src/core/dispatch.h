// The one place that knows every algorithm: calls `visit` with an object of the struct that stands for it.
#pragma once

#include <utility>

#include "core/fixed_window.h"
#include "core/params.h"
#include "core/permits.h"
#include "core/sliding_log.h"
#include "core/sliding_window.h"
#include "core/token_bucket.h"

namespace penstock::core {

template <class Visitor>
decltype(auto) Dispatch(Algorithm algorithm, Visitor&& visit) {
  switch (algorithm) {
    case Algorithm::kFixedWindow:
      return std::forward<Visitor>(visit)(FixedWindow{});
    case Algorithm::kSlidingWindow:
      return std::forward<Visitor>(visit)(SlidingWindow{});
    case Algorithm::kSlidingLog:
      return std::forward<Visitor>(visit)(SlidingLog{});
    case Algorithm::kPermits:
      return std::forward<Visitor>(visit)(Permits{});
    case Algorithm::kTokenBucket:
      break;
  }
  return std::forward<Visitor>(visit)(TokenBucket{});
}

}  // namespace penstock::core
