#include "service/failover/share.h"

#include "core/ticks.h"

namespace penstock::service {

std::optional<core::LimitParams> ShareOf(const core::LimitParams& params, const engine::Fleet& fleet) {
  if (params.kind != core::RateKind::kFinite || fleet.nodes == 1) return params;
  const int64_t nodes = fleet.nodes;
  const bool one_more = fleet.index && *fleet.index < params.capacity % nodes;
  const int64_t part = params.capacity / nodes + (one_more ? 1 : 0);
  if (part == 0) return std::nullopt;
  if (params.algorithm != core::Algorithm::kTokenBucket) {
    core::LimitParams share = params;
    share.count = share.capacity = part;
    return share;
  }
  core::RateSpec spec;
  spec.count = params.count;
  spec.period = {core::BoundedProduct(params.period.count, nodes)};
  spec.burst = part;
  const Result<core::LimitParams> share = core::CompileRate(spec);
  return share ? std::optional(*share) : std::nullopt;
}

}  // namespace penstock::service
