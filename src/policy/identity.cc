#include "policy/identity.h"

#include <algorithm>

#include "base/bytes.h"

namespace penstock::policy {

std::string LimitIdentity(std::string_view domain, const LimitDefinition& limit,
                          std::string_view match_text) {
  const bool permits = limit.permits.has_value();
  std::string out;
  AppendInt(out, static_cast<int64_t>(limit.key.size()));
  out += ';';
  AppendSized(out, domain);
  AppendSized(out, limit.name);
  AppendSized(out, ToString(permits ? core::Algorithm::kPermits : limit.algorithm));
  AppendSized(out, ToString(limit.window));
  for (const KeyPart& part : limit.key) {
    AppendSized(out, part.attribute);
    std::string masks;
    if (part.address) {
      AppendInt(masks, part.mask4);
      masks += ',';
      AppendInt(masks, part.mask6);
    }
    AppendSized(out, masks);
  }
  AppendSized(out, match_text);
  return out;
}

bool SharesIdentity(const LimitDefinition& limit, const OverrideDefinition& override_definition) {
  return std::all_of(
      override_definition.match.begin(), override_definition.match.end(), [&](const Condition& condition) {
        return std::any_of(limit.key.begin(), limit.key.end(),
                           [&](const KeyPart& part) { return part.attribute == condition.attribute; });
      });
}

int ShardPart(const DomainDefinition& domain, const LimitDefinition& limit) {
  if (domain.shard_by.empty()) return -1;
  for (size_t i = 0; i < limit.key.size(); ++i) {
    if (limit.key[i].attribute == domain.shard_by) return static_cast<int>(i);
  }
  return -1;
}

std::string_view ToString(core::OnFailure on_failure) {
  switch (on_failure) {
    case core::OnFailure::kAllow:
      return "allow";
    case core::OnFailure::kDeny:
      return "deny";
    case core::OnFailure::kLocal:
      return "local";
  }
  return "";
}

}  // namespace penstock::policy
