#include "service/failover/share_cache.h"

#include <limits>

#include "service/failover/share.h"

namespace penstock::service {
namespace {

// All that is a limit's own, but its version and binding.
void Copy(const core::Limit& from, core::Limit& to) {
  to.domain = from.domain;
  to.name = from.name;
  to.unit = from.unit;
  to.identity = from.identity;
  to.key_names = from.key_names;
  to.params = from.params;
  to.timezone = from.timezone;
  to.shadow = from.shadow;
  to.on_failure = from.on_failure;
  to.shard_part = from.shard_part;
}

}  // namespace

std::shared_ptr<const Share> ShareCache::Find(const core::Limit& limit, const Hash128& identity,
                                              const engine::Fleet& fleet) {
  constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();
  const Key key{identity, limit.params, fleet.nodes, fleet.index.value_or(kNoIndex), limit.version == 0};
  const auto found = shares_.find(key);
  if (found != shares_.end()) return found->second;
  bool keep = true;
  std::shared_ptr<const Share> share = Make(limit, fleet, keep);
  if (!keep) return share;
  if (shares_.size() == kMaxShares) shares_.clear();
  shares_.emplace(key, share);
  return share;
}

// The local engine knows a share as an ad hoc limit: the last parameters hold, and what was used is carried.
std::shared_ptr<const Share> ShareCache::Make(const core::Limit& limit, const engine::Fleet& fleet,
                                              bool& keep) {
  const std::optional<core::LimitParams> params = ShareOf(limit.params, fleet);
  if (!params) return nullptr;
  auto share = std::make_shared<Share>();
  Copy(limit, share->limit);
  share->limit.params = *params;
  share->nodes = fleet.nodes;
  keep = local_.BindAdHoc(share->limit);
  if (limit.version != 0) return share;
  share->ad_hoc = std::make_unique<core::Limit>();
  Copy(limit, *share->ad_hoc);
  keep = remote_.BindAdHoc(*share->ad_hoc) && keep;
  return share;
}

}  // namespace penstock::service
