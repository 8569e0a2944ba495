// Rules in the order in which they stand, and an index over their plain equalities: from a request's values to the few
// rules that can hold. A rule with an equality is filed under it, by a hash of (attribute, value); the others are
// candidates always. So the cost of a look-up does not grow with the policy. What a rule needs on the decision path
// stands together in one record, because with many rules the time goes into memory that is not cached.
//
// Thread contract: immutable after Build; reading is const.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/limit.h"
#include "policy/huge_allocator.h"
#include "policy/matcher.h"

namespace penstock::policy {

class RuleSet;

// A part of a key: which attribute, and how much of an address counts.
struct KeySlot {
  uint32_t attribute = 0;
  bool address = false;
  uint8_t mask4 = 32;
  uint8_t mask6 = 128;
};

struct RuleCondition {
  uint32_t attribute = 0;  // the domain's number
  const CompiledMatcher* matcher = nullptr;
};

// One rule's record: this head, then its conditions, its key, and the texts of its equalities.
class Rule {
 public:
  const core::Limit* limit() const { return limit_; }
  const RuleSet* overrides() const { return overrides_; }  // null = none
  std::span<const KeySlot> keys() const {
    return {reinterpret_cast<const KeySlot*>(Conditions() + condition_count_), key_count_};
  }
  // Whether the values (by attribute number; null data() = absent) satisfy every condition.
  bool Holds(const std::string_view* values) const {
    const Condition* condition = Conditions();
    for (uint32_t i = 0; i < condition_count_; ++i, ++condition) {
      const std::string_view value = values[condition->attribute];
      if (condition->text_size == kByMatcher) {
        if (!condition->matcher->Holds(value)) return false;
        continue;
      }
      if (value.size() != condition->text_size || value.data() == nullptr) return false;
      const char* text = reinterpret_cast<const char*>(this) + condition->text_begin;
      if (std::memcmp(text, value.data(), value.size()) != 0) return false;
    }
    return true;
  }

 private:
  friend class RuleSet;
  static constexpr uint32_t kByMatcher = UINT32_MAX;
  // An equality has its text behind the record's key.
  struct Condition {
    uint32_t attribute;
    uint32_t text_size;
    union {
      uint64_t text_begin;
      const CompiledMatcher* matcher;
    };
  };

  const Condition* Conditions() const { return reinterpret_cast<const Condition*>(this + 1); }

  const core::Limit* limit_ = nullptr;
  const RuleSet* overrides_ = nullptr;
  uint32_t condition_count_ = 0;
  uint32_t key_count_ = 0;
};

class RuleSet {
 public:
  // Rules are added in their order, then the index is built once.
  void Add(const core::Limit* limit, const RuleSet* overrides, std::span<const RuleCondition> conditions,
           std::span<const KeySlot> keys);
  void Build();

  // Calls visit(rule) for every rule that the values satisfy, in order, until it returns false. `found` is scratch.
  template <class Visit>
  void ForEach(const std::string_view* values, std::vector<uint32_t>& found, const Visit& visit) const {
    found.clear();
    if (!slots_.empty()) Find(values, found);
    // Both lists ascend: together they give the order.
    size_t a = 0;
    size_t f = 0;
    while (a < always_.size() || f < found.size()) {
      const bool from_found = a == always_.size() || (f < found.size() && found[f] < always_[a]);
      const Rule& rule = At(from_found ? found[f++] : always_[a++]);
      if (rule.Holds(values) && !visit(rule)) return;
    }
  }

 private:
  // `rule` is a rule's place, or kList + the place in lists_ of a count and that many places; kEmpty: free.
  struct Slot {
    uint32_t tag = 0;
    uint32_t rule = kEmpty;
  };
  struct Pending {
    uint32_t place;
    uint32_t first_condition;
    uint32_t condition_count;
  };
  static constexpr uint32_t kEmpty = UINT32_MAX;
  static constexpr uint32_t kList = uint32_t{1} << 31;
  static constexpr size_t kLine = 64;

  // Asks for the record and its limit at once: with many rules both have left the cache, and one after the other they
  // would take twice as long.
  void Prefetch(uint32_t place) const {
    const auto* record = reinterpret_cast<const char*>(&words_[place]);
    for (size_t at = 0; at < stride_words_ * sizeof(uint64_t); at += kLine) __builtin_prefetch(record + at);
    const auto* limit = reinterpret_cast<const char*>(first_limit_ + place / stride_words_);
    for (size_t at = 0; at < sizeof(core::Limit); at += kLine) __builtin_prefetch(limit + at);
  }
  void LayOut();

  const Rule& At(uint32_t place) const { return *reinterpret_cast<const Rule*>(&words_[place]); }
  void Find(const std::string_view* values, std::vector<uint32_t>& found) const;
  void Append(const Slot& slot, std::vector<uint32_t>& found) const;
  const RuleCondition* Choose(const Pending& rule, const class Crowd& crowd) const;

  // Invariant: words_ holds the records one behind the other; a place is a record's first word, so places ascend in
  // the rules' order. slots_ is empty or a power of two with at least half its places free, searched from tag & mask on;
  // all values with one tag stand in one slot. Where first_limit_ is not null, records are stride_words_ apart and the
  // limits stand one behind the other in the same order. pending_ and conditions_ serve Build only.
  std::vector<uint64_t, HugeAllocator<uint64_t>> words_;
  std::vector<uint32_t> attributes_;  // those under which something is filed
  std::vector<Slot, HugeAllocator<Slot>> slots_;
  std::vector<uint32_t> lists_;
  const core::Limit* first_limit_ = nullptr;
  uint32_t stride_words_ = 0;
  std::vector<uint32_t> always_;
  std::vector<Pending> pending_;
  std::vector<RuleCondition> conditions_;
};

}  // namespace penstock::policy
