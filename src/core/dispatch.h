// The one place that knows every algorithm: calls `visit` with an object of the struct that stands for it.
#pragma once

#include <utility>

#include "core/params.h"
#include "core/token_bucket.h"

namespace penstock::core {

// Permits have rules of their own and never come here; as the limit compiles to no rate, they are decided before.
template <class Visitor>
decltype(auto) Dispatch([[maybe_unused]] Algorithm algorithm, Visitor&& visit) {
  return std::forward<Visitor>(visit)(TokenBucket{});
}

}  // namespace penstock::core
