// The canonical bytes of a bucket's identity without the key's values (design: what a limit is counted under). Rate,
// burst and match are not part of it, so a change of these carries what was used.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "policy/definition.h"

namespace penstock::policy {

// Every part is length-prefixed and their number stands in front, so no two identities differ only by where a
// separator falls and none is the beginning of another. `match_text` is empty but for overrides that match other
// attributes than the key's.
std::string LimitIdentity(std::string_view domain, const LimitDefinition& limit, std::string_view match_text);

// Whether the override's match uses only the key's own attributes, so that it shares the limit's buckets.
bool SharesIdentity(const LimitDefinition& limit, const OverrideDefinition& override_definition);

// Which part of the limit's key the domain's shard_by names; -1 = none. It is no part of the identity, but of the names
// under which a Redis keeps the buckets.
int ShardPart(const DomainDefinition& domain, const LimitDefinition& limit);

std::string_view ToString(core::OnFailure on_failure);

}  // namespace penstock::policy
