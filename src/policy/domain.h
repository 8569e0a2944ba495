// A domain as the decision path reads it. Inside src/policy only.
#pragma once

#include <deque>
#include <string>

#include "core/limit.h"
#include "policy/matcher.h"
#include "policy/name_table.h"
#include "policy/rule_set.h"

namespace penstock::policy {

class Domain {
 public:
  std::string name;
  NameTable attributes;
  RuleSet rules;                   // one a limit
  size_t max_address_parts = 0;    // of one limit's key
  std::deque<core::Limit> limits;  // overrides after their limit
  std::deque<CompiledMatcher> matchers;
  std::deque<RuleSet> overrides;  // the first that holds wins
};

}  // namespace penstock::policy
