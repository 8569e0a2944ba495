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

const core::Limit* Effective(const Rule& rule, const std::string_view* values, MatchScratch& scratch) {
  const core::Limit* limit = rule.limit();
  if (rule.overrides() == nullptr) return limit;
  rule.overrides()->ForEach(values, scratch.override_candidates, [&](const Rule& change) {
    limit = change.limit();
    return false;
  });
  return limit;
}

// Adds a limit whose match holds, unless its key is incomplete.
Result<void> Add(const Rule& rule, const std::string_view* values, MatchScratch& scratch) {
  const auto keys = rule.keys();
  for (const KeySlot& key : keys) {
    if (values[key.attribute].data() == nullptr) return {};
  }
  if (scratch.matches.size() == kMaxLimitsPerRequest) {
    return TooMany("limits match one request", kMaxLimitsPerRequest);
  }
  const auto first = static_cast<uint32_t>(scratch.parts.size());
  size_t bytes = 0;
  for (const KeySlot& key : keys) {
    const std::string_view value = values[key.attribute];
    scratch.parts.push_back(key.address ? AddressPart(key, value, scratch) : value);
    bytes += scratch.parts.back().size();
  }
  if (bytes > kMaxKeyBytes) return TooMany("bytes in one key", kMaxKeyBytes);
  scratch.matches.push_back({Effective(rule, values, scratch), first, static_cast<uint32_t>(keys.size())});
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
    scratch.values[number] = attribute.value.data() == nullptr ? std::string_view("") : attribute.value;
  }
  Result<void> result;
  const std::string_view* values = scratch.values.data();
  domain.rules.ForEach(values, scratch.candidates, [&](const Rule& rule) {
    result = Add(rule, values, scratch);
    return result.has_value();
  });
  return result;
}

}  // namespace penstock::policy
