#include "policy/compare.h"

#include <map>
#include <set>
#include <utility>

#include "policy/identity.h"
#include "policy/matcher.h"

namespace penstock::policy {
namespace {

std::string LimitKey(const std::string& domain, const std::string& limit) { return domain + "/" + limit; }

// The parts of a limit's identity, in words.
std::vector<std::pair<std::string, std::string>> IdentityParts(const LimitDefinition& limit) {
  std::string key;
  std::string masks;
  for (const KeyPart& part : limit.key) {
    key += part.attribute + ",";
    masks += part.address ? std::to_string(part.mask4) + "/" + std::to_string(part.mask6) + "," : "-,";
  }
  const auto algorithm = limit.permits ? core::Algorithm::kPermits : limit.algorithm;
  return {{"algorithm", std::string(ToString(algorithm))},
          {"window", std::string(ToString(limit.window))},
          {"key", key},
          {"masks", masks}};
}

std::set<std::string> OverrideIdentities(const LimitDefinition& limit) {
  std::set<std::string> out;
  for (const auto& change : limit.overrides) {
    if (!SharesIdentity(limit, change)) out.insert(MatchText(change.match));
  }
  return out;
}

// What makes the buckets of `after` fresh, or empty.
std::string WhatChanged(const LimitDefinition& before, const LimitDefinition& after) {
  std::string out;
  const auto old_parts = IdentityParts(before);
  const auto new_parts = IdentityParts(after);
  for (size_t i = 0; i < old_parts.size(); ++i) {
    if (old_parts[i].second == new_parts[i].second) continue;
    if (!out.empty()) out += ", ";
    out += new_parts[i].first;
  }
  if (!out.empty()) return out + " changed";
  const auto old_overrides = OverrideIdentities(before);
  for (const std::string& match : OverrideIdentities(after)) {
    if (!old_overrides.contains(match)) return "the match of an override with buckets of its own changed";
  }
  return out;
}

}  // namespace

std::vector<std::string> FreshBuckets(const PolicyDefinition& before, const PolicyDefinition& after) {
  using Place = std::pair<const DomainDefinition*, const LimitDefinition*>;
  std::map<std::string, Place> old_limits;
  for (const auto& domain : before.domains) {
    for (const LimitDefinition& limit : domain.limits) {
      old_limits[LimitKey(domain.name, limit.name)] = {&domain, &limit};
    }
  }
  std::vector<std::string> out;
  for (const auto& domain : after.domains) {
    for (const LimitDefinition& limit : domain.limits) {
      const auto found = old_limits.find(LimitKey(domain.name, limit.name));
      if (found == old_limits.end()) continue;
      const auto [old_domain, old_limit] = found->second;
      const std::string name = "the limit " + LimitKey(domain.name, limit.name) + " starts fresh buckets";
      const std::string changed = WhatChanged(*old_limit, limit);
      if (!changed.empty()) {
        out.push_back(name + ": ");
        out.back() += changed;
      } else if (ShardPart(*old_domain, *old_limit) != ShardPart(domain, limit)) {
        out.push_back(name + " where a Redis or Valkey keeps them: shard_by changed");
      }
    }
  }
  return out;
}

}  // namespace penstock::policy
