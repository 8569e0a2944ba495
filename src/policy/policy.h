// The policy: domains and their limits, immutable once built. State belongs to buckets, never to the policy: a
// reload builds a new Policy and posts it to each event loop.
//
// Thread contract: immutable after Build and the engine's registration of its limits(); Match is const and may run on
// any thread, each with its own MatchScratch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/limit.h"
#include "penstock/request.h"
#include "policy/definition.h"
#include "policy/diagnostics.h"
#include "policy/name_table.h"

namespace penstock::policy {

// One limit that applies to a request, with the key's values (views into the request or into the scratch).
struct Match {
  const core::Limit* limit = nullptr;  // the effective one: an override's where one matched
  uint32_t first_part = 0;             // key values: scratch.parts[first_part, first_part + part_count)
  uint32_t part_count = 0;
};

// Reused between calls; keeps its capacity, so that a decision allocates nothing once it is warm.
struct MatchScratch {
  std::vector<Match> matches;           // out, in the policy's order
  std::vector<std::string_view> parts;  // out
  std::vector<std::string_view>
      values;  // attribute values by the domain's attribute number; null data() = absent
  std::vector<uint32_t> candidates;
  std::vector<uint32_t> override_candidates;
  std::string text;  // normalised addresses
};

// What the caller's engine can hold; everything else is refused with the limit's line.
struct BuildOptions {
  bool permits = false;
  // Empty: everything that CompileRate takes.
  std::function<Result<void>(const core::LimitParams&)> can_hold;
};

// A domain and its index; domain.h holds it.
class Domain;

class Policy {
 public:
  static constexpr size_t kMaxKeyParts = 16;
  static constexpr size_t kMaxConditions = 32;
  static constexpr size_t kMaxAttributeNameBytes = 256;

  // Without any domain.
  Policy();
  ~Policy();
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Compiles a definition; null when it added an error to the diagnostics.
  static std::unique_ptr<Policy> Build(const PolicyDefinition& definition, const BuildOptions& options,
                                       Diagnostics& diagnostics);

  // Null when no such domain is known: a typo must show.
  const Domain* FindDomain(std::string_view name) const;

  // The limits of the domain that apply to the attributes, in the policy's order, into scratch.matches. Does not
  // look at units. Of an attribute given twice the last value counts. Fails when more than kMaxLimitsPerRequest
  // match, a key passes kMaxKeyBytes, or there are more than kMaxAttributesPerRequest attributes.
  Result<void> Match(const Domain& domain, std::span<const Attribute> attributes,
                     MatchScratch& scratch) const;

  // Every compiled limit, overrides included, in the policy's order: what an engine registers.
  std::span<core::Limit* const> limits() const { return limit_pointers_; }
  int64_t revision() const { return revision_; }

 private:
  friend class Compiler;

  // limit_pointers_ names every element of every domain's limits.
  std::vector<std::unique_ptr<Domain>> domains_;
  std::vector<core::Limit*> limit_pointers_;
  NameTable domain_names_;  // the place in domains_
  int64_t revision_ = 0;
};

}  // namespace penstock::policy
