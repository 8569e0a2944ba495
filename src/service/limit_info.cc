#include "service/limit_info.h"

#include <algorithm>
#include <limits>

namespace penstock::service {

std::chrono::microseconds RefillTime(const core::LimitParams& params) {
  if (params.algorithm != core::Algorithm::kTokenBucket || params.count <= 0) {
    return std::chrono::microseconds(params.period.count);
  }
  __extension__ using Wide = __int128;
  const Wide us =
      (static_cast<Wide>(params.capacity) * params.period.count + params.count - 1) / params.count;
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  return std::chrono::microseconds(static_cast<int64_t>(std::min(us, kMost)));
}

}  // namespace penstock::service
