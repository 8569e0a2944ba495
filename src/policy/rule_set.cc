#include "policy/rule_set.h"

#include <algorithm>
#include <new>
#include <string>
#include <unordered_map>

#include "policy/name_table.h"

namespace penstock::policy {
namespace {

// With fewer rules all of it stays in the cache and asking for it early is in vain.
constexpr size_t kFewRules = 1'000;
// Records longer than this are not brought to one distance.
constexpr size_t kMaxStrideLines = 2;
// Free room, so that the first look nearly always decides.
constexpr size_t kSlotsPerValue = 2;

// What a value is filed under. Different values with one tag share a slot; their rules' conditions tell them apart.
uint32_t TagOf(uint32_t attribute, std::string_view value) {
  return static_cast<uint32_t>(HashText(value, attribute + 1) >> 32);
}

}  // namespace

// How many rules would stand under each value: a rule is filed under its most selective equality.
class Crowd {
 public:
  void Count(const RuleCondition& condition) {
    for (const std::string& value : condition.matcher->exact_values())
      ++counts_[TagOf(condition.attribute, value)];
  }
  uint64_t Of(const RuleCondition& condition) const {
    uint64_t total = 0;
    for (const std::string& value : condition.matcher->exact_values()) {
      total += counts_.at(TagOf(condition.attribute, value));
    }
    return total;
  }

 private:
  std::unordered_map<uint32_t, uint32_t> counts_;
};

void RuleSet::Add(const core::Limit* limit, const RuleSet* overrides,
                  std::span<const RuleCondition> conditions, std::span<const KeySlot> keys) {
  size_t bytes = sizeof(Rule) + conditions.size() * sizeof(Rule::Condition) + keys.size() * sizeof(KeySlot);
  const size_t texts = bytes;
  const auto text_of = [](const RuleCondition& condition) {
    const auto values = condition.matcher->exact_values();
    return values.size() == 1 ? &values[0] : nullptr;
  };
  for (const RuleCondition& condition : conditions) {
    if (const std::string* text = text_of(condition)) bytes += text->size();
  }
  const auto place = static_cast<uint32_t>(words_.size());
  words_.resize(words_.size() + (bytes + 7) / 8);
  auto* record = reinterpret_cast<char*>(&words_[place]);
  auto* rule = new (record) Rule;
  rule->limit_ = limit;
  rule->overrides_ = overrides;
  rule->condition_count_ = static_cast<uint32_t>(conditions.size());
  rule->key_count_ = static_cast<uint32_t>(keys.size());
  char* at = record + sizeof(Rule);
  size_t text_begin = texts;
  for (const RuleCondition& condition : conditions) {
    auto* made = new (at) Rule::Condition;
    at += sizeof(Rule::Condition);
    made->attribute = condition.attribute;
    if (const std::string* text = text_of(condition)) {
      made->text_size = static_cast<uint32_t>(text->size());
      made->text_begin = text_begin;
      std::memcpy(record + text_begin, text->data(), text->size());
      text_begin += text->size();
    } else {
      made->text_size = Rule::kByMatcher;
      made->matcher = condition.matcher;
    }
  }
  for (const KeySlot& key : keys) {
    new (at) KeySlot(key);
    at += sizeof(KeySlot);
  }
  pending_.push_back(
      {place, static_cast<uint32_t>(conditions_.size()), static_cast<uint32_t>(conditions.size())});
  conditions_.insert(conditions_.end(), conditions.begin(), conditions.end());
}

const RuleCondition* RuleSet::Choose(const Pending& rule, const Crowd& crowd) const {
  const RuleCondition* best = nullptr;
  uint64_t best_crowd = 0;
  for (uint32_t i = 0; i < rule.condition_count; ++i) {
    const RuleCondition& condition = conditions_[rule.first_condition + i];
    if (condition.matcher->exact_values().empty()) continue;
    const uint64_t here = crowd.Of(condition);
    if (best == nullptr || here < best_crowd) {
      best = &condition;
      best_crowd = here;
    }
  }
  return best;
}

// Gives records the same distance where that costs little room, so that a limit's place follows from its record's.
void RuleSet::LayOut() {
  size_t longest = 0;
  bool in_order = !pending_.empty();
  const core::Limit* const first = in_order ? At(0).limit() : nullptr;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const size_t end = i + 1 < pending_.size() ? pending_[i + 1].place : words_.size();
    longest = std::max(longest, end - pending_[i].place);
    in_order = in_order && At(pending_[i].place).limit() == first + i;
  }
  constexpr size_t kLineWords = kLine / sizeof(uint64_t);
  const size_t stride = (longest + kLineWords - 1) / kLineWords * kLineWords;
  if (!in_order || stride > kMaxStrideLines * kLineWords || pending_.size() < kFewRules) {
    words_.shrink_to_fit();
    return;
  }
  decltype(words_) apart(pending_.size() * stride);
  for (size_t i = 0; i < pending_.size(); ++i) {
    const size_t begin = pending_[i].place;
    const size_t end = i + 1 < pending_.size() ? pending_[i + 1].place : words_.size();
    std::copy(words_.begin() + static_cast<ptrdiff_t>(begin), words_.begin() + static_cast<ptrdiff_t>(end),
              apart.begin() + static_cast<ptrdiff_t>(i * stride));
  }
  for (size_t i = 0; i < pending_.size(); ++i) pending_[i].place = static_cast<uint32_t>(i * stride);
  words_ = std::move(apart);
  first_limit_ = first;
  stride_words_ = static_cast<uint32_t>(stride);
}

void RuleSet::Build() {
  LayOut();
  Crowd crowd;
  for (const RuleCondition& condition : conditions_) crowd.Count(condition);
  std::unordered_map<uint32_t, std::vector<uint32_t>> filed;
  for (const Pending& rule : pending_) {
    const RuleCondition* best = Choose(rule, crowd);
    if (best == nullptr) {
      always_.push_back(rule.place);
      continue;
    }
    if (std::find(attributes_.begin(), attributes_.end(), best->attribute) == attributes_.end()) {
      attributes_.push_back(best->attribute);
    }
    for (const std::string& value : best->matcher->exact_values()) {
      auto& list = filed[TagOf(best->attribute, value)];
      if (list.empty() || list.back() != rule.place) list.push_back(rule.place);
    }
  }
  conditions_ = {};
  pending_ = {};
  if (filed.empty()) return;
  size_t capacity = 8;
  while (capacity < kSlotsPerValue * filed.size()) capacity *= 2;
  slots_.assign(capacity, Slot{});
  for (const auto& [tag, list] : filed) {
    size_t at = tag & (capacity - 1);
    while (slots_[at].rule != kEmpty) at = (at + 1) & (capacity - 1);
    slots_[at].tag = tag;
    if (list.size() == 1) {
      slots_[at].rule = list[0];
      continue;
    }
    slots_[at].rule = kList + static_cast<uint32_t>(lists_.size());
    lists_.push_back(static_cast<uint32_t>(list.size()));
    lists_.insert(lists_.end(), list.begin(), list.end());
  }
}

void RuleSet::Append(const Slot& slot, std::vector<uint32_t>& found) const {
  if (slot.rule < kList) {
    if (first_limit_ != nullptr) Prefetch(slot.rule);
    found.push_back(slot.rule);
    return;
  }
  const auto first = lists_.begin() + (slot.rule - kList);
  found.insert(found.end(), first + 1, first + 1 + *first);
}

void RuleSet::Find(const std::string_view* values, std::vector<uint32_t>& found) const {
  const size_t mask = slots_.size() - 1;
  size_t sources = 0;
  for (const uint32_t attribute : attributes_) {
    const std::string_view value = values[attribute];
    if (value.data() == nullptr) continue;
    const uint32_t tag = TagOf(attribute, value);
    // Ends: at least half of the slots are free.
    for (size_t at = tag & mask; slots_[at].rule != kEmpty; at = (at + 1) & mask) {
      if (slots_[at].tag != tag) continue;
      Append(slots_[at], found);
      ++sources;
      break;
    }
  }
  if (sources < 2) return;
  // Two attributes' values may share a tag, and with it their rules.
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
}

}  // namespace penstock::policy
