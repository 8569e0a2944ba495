#include "core/params.h"

namespace penstock::core {

Result<LimitParams> CompileRate(const RateSpec& spec) {
  if (spec.algorithm == Algorithm::kPermits) return Invalid("a permit limit has no rate");
  return Invalid("not supported");
}

}  // namespace penstock::core
