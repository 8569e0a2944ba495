// A domain as the decision path reads it. Inside src/policy only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/limit.h"
#include "policy/index.h"
#include "policy/matcher.h"
#include "policy/name_table.h"

namespace penstock::policy {

// A part of a key: which attribute, and how much of an address counts.
struct KeySlot {
  uint32_t attribute = 0;
  bool address = false;
  uint8_t mask4 = 32;
  uint8_t mask6 = 128;
};

// A limit's overrides: the first that matches wins.
struct OverrideSet {
  struct Rule {
    const core::Limit* limit = nullptr;
    std::span<const CompiledCondition> conditions;
  };
  std::vector<Rule> rules;
  RuleIndex index;
};

// What the decision path knows of a limit, in one cache line.
struct LimitRule {
  const core::Limit* limit = nullptr;
  const CompiledCondition* conditions = nullptr;
  const KeySlot* keys = nullptr;
  const OverrideSet* overrides = nullptr;  // null = none
  uint32_t condition_count = 0;
  uint32_t key_count = 0;
};

class Domain {
 public:
  std::string name;
  NameTable attributes;
  std::vector<LimitRule> rules;    // in the policy's order
  RuleIndex index;                 // over rules
  size_t max_address_parts = 0;    // of one limit's key
  std::deque<core::Limit> limits;  // overrides after their limit
  std::deque<CompiledMatcher> matchers;
  std::deque<std::vector<CompiledCondition>> conditions;
  std::deque<std::vector<KeySlot>> keys;
  std::deque<OverrideSet> overrides;
};

}  // namespace penstock::policy
