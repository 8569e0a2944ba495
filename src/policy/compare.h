// Two policies side by side: what a change does to buckets that are in use.
#pragma once

#include <string>
#include <vector>

#include "policy/definition.h"

namespace penstock::policy {

// The limits of `after` whose buckets start fresh, because a part of their identity changed: a sentence each that names
// the limit and what changed. Limits that only one of the two has are not told.
std::vector<std::string> FreshBuckets(const PolicyDefinition& before, const PolicyDefinition& after);

}  // namespace penstock::policy
