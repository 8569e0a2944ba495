#include "policy/index.h"

#include <algorithm>
#include <unordered_map>

#include "policy/name_table.h"

namespace penstock::policy {
namespace {

// The values of an equality, or empty.
std::vector<std::string_view> ExactValues(const CompiledCondition& condition) {
  if (condition.matcher == nullptr) return {condition.exact};
  const auto values = condition.matcher->exact_values();
  return {values.begin(), values.end()};
}

}  // namespace

uint64_t RuleIndex::Hash(uint32_t attribute, std::string_view value) {
  return HashText(value, attribute + 1);
}

void RuleIndex::Build(std::span<const Conditions> rules) {
  // How many rules would stand under each value: a rule is filed under its most selective equality.
  std::unordered_map<uint64_t, uint32_t> crowd;
  for (const Conditions& rule : rules) {
    for (const CompiledCondition& condition : rule) {
      for (const std::string_view value : ExactValues(condition)) ++crowd[Hash(condition.attribute, value)];
    }
  }
  std::unordered_map<uint64_t, std::vector<uint32_t>> filed;
  for (uint32_t number = 0; number < rules.size(); ++number) {
    const CompiledCondition* best = nullptr;
    uint64_t best_crowd = 0;
    for (const CompiledCondition& condition : rules[number]) {
      uint64_t total = 0;
      for (const std::string_view value : ExactValues(condition))
        total += crowd[Hash(condition.attribute, value)];
      if (total > 0 && (best == nullptr || total < best_crowd)) {
        best = &condition;
        best_crowd = total;
      }
    }
    if (best == nullptr) {
      always_.push_back(number);
      continue;
    }
    if (std::find(attributes_.begin(), attributes_.end(), best->attribute) == attributes_.end()) {
      attributes_.push_back(best->attribute);
    }
    for (const std::string_view value : ExactValues(*best)) {
      auto& list = filed[Hash(best->attribute, value)];
      if (list.empty() || list.back() != number) list.push_back(number);
    }
  }
  if (filed.empty()) return;
  size_t capacity = 8;
  while (capacity < 2 * filed.size()) capacity *= 2;
  slots_.assign(capacity, Slot{});
  for (const auto& [hash, list] : filed) {
    size_t at = hash & (capacity - 1);
    while (slots_[at].rule != kEmpty) at = (at + 1) & (capacity - 1);
    slots_[at].tag = static_cast<uint32_t>(hash >> 32);
    if (list.size() == 1) {
      slots_[at].rule = list[0];
      continue;
    }
    slots_[at].rule = kList + static_cast<uint32_t>(lists_.size());
    lists_.push_back(static_cast<uint32_t>(list.size()));
    lists_.insert(lists_.end(), list.begin(), list.end());
  }
}

void RuleIndex::Append(const Slot& slot, std::vector<uint32_t>& found) const {
  if (slot.rule < kList) {
    found.push_back(slot.rule);
    return;
  }
  const auto first = lists_.begin() + (slot.rule - kList);
  found.insert(found.end(), first + 1, first + 1 + *first);
}

void RuleIndex::Find(const std::string_view* values, std::vector<uint32_t>& found) const {
  const size_t before = found.size();
  const size_t mask = slots_.size() - 1;
  size_t sources = 0;
  for (const uint32_t attribute : attributes_) {
    const std::string_view value = values[attribute];
    if (value.data() == nullptr) continue;
    const uint64_t hash = Hash(attribute, value);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    // Ends: at least half of the slots are free.
    for (size_t at = hash & mask; slots_[at].rule != kEmpty; at = (at + 1) & mask) {
      if (slots_[at].tag != tag) continue;
      Append(slots_[at], found);
      ++sources;
    }
  }
  // Two slots may name the same rule when tags collide.
  if (sources < 2) return;
  std::sort(found.begin() + static_cast<ptrdiff_t>(before), found.end());
  found.erase(std::unique(found.begin() + static_cast<ptrdiff_t>(before), found.end()), found.end());
}

}  // namespace penstock::policy
