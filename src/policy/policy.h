// The policy: domains and their limits, immutable once built. State belongs to buckets, never to the policy: a
// reload builds a new Policy and posts it to each event loop.
//
// Thread contract: immutable after Build and binding; Match is const and may run on any thread, each with its own
// MatchScratch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/limit.h"
#include "penstock/request.h"

namespace penstock::policy {

// One limit that applies to a request, with the key's values (views into the request or into the scratch).
struct Match {
  const core::Limit* limit = nullptr;  // the effective one: an override's where one matched
  uint32_t first_part = 0;             // key values: scratch.parts[first_part, first_part + part_count)
  uint32_t part_count = 0;
};

// Reused between calls; keeps its capacity.
struct MatchScratch {
  std::vector<Match> matches;            // out, in the policy's order
  std::vector<std::string_view> parts;   // out
  std::vector<std::string_view> values;  // attribute values by the domain's attribute number
  std::vector<uint32_t> candidates;
  std::string text;  // normalised addresses
};

// A domain and its index. Opaque here; index.h holds it.
class Domain;

class Policy {
 public:
  Policy();
  ~Policy();

  // Null when no such domain is known: a typo must show.
  const Domain* FindDomain(std::string_view name) const;

  // The limits of the domain that apply to the attributes, in the policy's order, into scratch.matches. Does not
  // look at units. Fails when more than kMaxLimitsPerRequest match or a key passes kMaxKeyBytes.
  Result<void> Match(const Domain& domain, std::span<const Attribute> attributes,
                     MatchScratch& scratch) const;

  // Every compiled limit, overrides included: what an engine registers.
  std::span<core::Limit* const> limits() const;
};

}  // namespace penstock::policy
