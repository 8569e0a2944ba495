// A domain as the decision path reads it. Inside src/policy only.
//
// Thread contract: built by one thread, then immutable and read by any.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/limit.h"
#include "policy/huge_allocator.h"
#include "policy/matcher.h"
#include "policy/name_table.h"
#include "policy/rule_set.h"

namespace penstock::policy {

class Domain {
 public:
  std::string name;
  NameTable attributes;
  RuleSet rules;                 // one a limit
  size_t max_address_parts = 0;  // of one limit's key
  // Reserved before the first is added: none may move.
  std::vector<core::Limit, HugeAllocator<core::Limit>> limits;  // one a rule, in order
  std::vector<core::Limit, HugeAllocator<core::Limit>> override_limits;
  std::deque<CompiledMatcher> matchers;
  std::deque<RuleSet> overrides;  // the first that holds wins
};

}  // namespace penstock::policy
