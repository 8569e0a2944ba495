// From attribute values to the few rules that can hold. Each rule with a plain equality is filed under it, by a hash
// of (attribute, value); the others are candidates always. So the cost of a look-up does not grow with the policy.
//
// Thread contract: immutable after Build; Find is const.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policy/matcher.h"

namespace penstock::policy {

// A condition as the decision path reads it. A single equality stands here itself.
struct CompiledCondition {
  uint32_t attribute = 0;                    // the domain's number
  const CompiledMatcher* matcher = nullptr;  // null: value must equal `exact`
  std::string_view exact;

  bool Holds(std::string_view value) const {
    if (matcher == nullptr) return value.data() != nullptr && value == exact;
    return matcher->Holds(value);
  }
};

inline bool AllHold(std::span<const CompiledCondition> conditions, const std::string_view* values) {
  for (const CompiledCondition& condition : conditions) {
    if (!condition.Holds(values[condition.attribute])) return false;
  }
  return true;
}

class RuleIndex {
 public:
  using Conditions = std::span<const CompiledCondition>;

  void Build(std::span<const Conditions> rules);

  // The rules that are filed nowhere, ascending: candidates for every request.
  std::span<const uint32_t> always() const { return always_; }
  bool indexed() const { return !attributes_.empty(); }
  // Appends the filed rules that the values select (by the attributes' numbers; null data() = absent), ascending.
  // A candidate's conditions must still be tested: hashes may collide.
  void Find(const std::string_view* values, std::vector<uint32_t>& found) const;

 private:
  // `rule` is a rule's number, or kList + the place in lists_ of a count and that many numbers; kEmpty: free.
  struct Slot {
    uint32_t tag = 0;
    uint32_t rule = kEmpty;
  };
  static constexpr uint32_t kEmpty = UINT32_MAX;
  static constexpr uint32_t kList = uint32_t{1} << 31;

  static uint64_t Hash(uint32_t attribute, std::string_view value);
  void Append(const Slot& slot, std::vector<uint32_t>& found) const;

  // Invariant: slots_ is empty or a power of two with at least half its places free; a tag is a hash's upper half.
  std::vector<uint32_t> attributes_;  // those under which something is filed
  std::vector<Slot> slots_;
  std::vector<uint32_t> lists_;
  std::vector<uint32_t> always_;
};

}  // namespace penstock::policy
