// The decision path: from attributes to the limits that apply.
#include "penstock/request.h"
#include "policy/domain.h"
#include "policy/policy.h"

namespace penstock::policy {
namespace {

// The longest text of an address.
constexpr size_t kMaxAddressText = 46;

Result<void> TooMany(std::string_view what, size_t bound) {
  return Fail(ErrorKind::kTooLarge, "more than " + std::to_string(bound) + " " + std::string(what));
}

// An address, normalised and masked, into scratch.text; a value that is no address is its own key.
std::string_view AddressPart(const KeySlot& slot, std::string_view value, MatchScratch& scratch) {
  if (value.size() > kMaxAddressText) return value;
  const auto address = ParseAddress(value);
  if (!address) return value;
  const size_t begin = scratch.text.size();
  address->Masked(address->is_v4() ? slot.mask4 : slot.mask6).AppendText(scratch.text);
  return std::string_view(scratch.text).substr(begin);
}

const core::Limit* Effective(const LimitRule& rule, const std::string_view* values, MatchScratch& scratch) {
  if (rule.overrides == nullptr) return rule.limit;
  const OverrideSet& set = *rule.overrides;
  auto& found = scratch.override_candidates;
  found.clear();
  if (set.index.indexed()) set.index.Find(values, found);
  // Both lists ascend; the first that holds wins.
  const auto always = set.index.always();
  size_t a = 0;
  size_t f = 0;
  while (a < always.size() || f < found.size()) {
    const bool from_found = a == always.size() || (f < found.size() && found[f] < always[a]);
    const OverrideSet::Rule& candidate = set.rules[from_found ? found[f++] : always[a++]];
    if (AllHold(candidate.conditions, values)) return candidate.limit;
  }
  return rule.limit;
}

// Adds the limit to the matches if it applies.
Result<void> Try(const LimitRule& rule, MatchScratch& scratch) {
  const std::string_view* values = scratch.values.data();
  for (uint32_t i = 0; i < rule.key_count; ++i) {
    if (values[rule.keys[i].attribute].data() == nullptr) return {};
  }
  if (!AllHold({rule.conditions, rule.condition_count}, values)) return {};
  if (scratch.matches.size() == kMaxLimitsPerRequest) {
    return TooMany("limits match one request", kMaxLimitsPerRequest);
  }
  const auto first = static_cast<uint32_t>(scratch.parts.size());
  size_t bytes = 0;
  for (uint32_t i = 0; i < rule.key_count; ++i) {
    const KeySlot& slot = rule.keys[i];
    const std::string_view value = values[slot.attribute];
    scratch.parts.push_back(slot.address ? AddressPart(slot, value, scratch) : value);
    bytes += scratch.parts.back().size();
  }
  if (bytes > kMaxKeyBytes) return TooMany("bytes in one key", kMaxKeyBytes);
  scratch.matches.push_back({Effective(rule, values, scratch), first, rule.key_count});
  return {};
}

Result<void> TryAll(const Domain& domain, MatchScratch& scratch) {
  if (!domain.index.indexed()) {
    for (const LimitRule& rule : domain.rules) {
      if (auto tried = Try(rule, scratch); !tried) return tried;
    }
    return {};
  }
  auto& found = scratch.candidates;
  found.clear();
  domain.index.Find(scratch.values.data(), found);
  // Both lists ascend: together they give the policy's order.
  const auto always = domain.index.always();
  size_t a = 0;
  size_t f = 0;
  while (a < always.size() || f < found.size()) {
    const bool from_found = a == always.size() || (f < found.size() && found[f] < always[a]);
    if (auto tried = Try(domain.rules[from_found ? found[f++] : always[a++]], scratch); !tried) return tried;
  }
  return {};
}

}  // namespace

const Domain* Policy::FindDomain(std::string_view name) const {
  const uint32_t place = domain_names_.Find(name);
  return place == NameTable::kNone ? nullptr : domains_[place].get();
}

Result<void> Policy::Match(const Domain& domain, std::span<const Attribute> attributes,
                           MatchScratch& scratch) const {
  if (attributes.size() > kMaxAttributesPerRequest) return TooMany("attributes", kMaxAttributesPerRequest);
  scratch.matches.clear();
  scratch.parts.clear();
  scratch.text.clear();
  // Views into the text must not move.
  if (domain.max_address_parts > 0) {
    scratch.text.reserve(domain.max_address_parts * (kMaxLimitsPerRequest + 1) * kMaxAddressText);
  }
  scratch.values.assign(domain.attributes.size(), std::string_view());
  for (const Attribute& attribute : attributes) {
    const uint32_t number = domain.attributes.Find(attribute.name);
    if (number == NameTable::kNone) continue;
    // An empty value is there all the same.
    scratch.values[number] = attribute.value.data() == nullptr ? std::string_view("", 0) : attribute.value;
  }
  return TryAll(domain, scratch);
}

}  // namespace penstock::policy
