// A limit's definition as one line of text, and back: what the registry keeps, what `GET /v1/limits` shows and `PUT`
// takes. JSON, which is YAML too, so that the reader of policy files reads it and every error is the same.
//
// Thread contract: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/definition.h"
#include "policy/policy.h"

namespace penstock::policy {

// The same text for definitions that say the same; what is a default is left out.
std::string DefinitionText(const LimitDefinition& limit);

// One limit of the domain, by the keys that a policy file takes. A name may be missing: it is `name` then, and must be
// it otherwise. It was compiled, so it can be built into a policy. kInvalid: what is wrong, all of it.
Result<LimitDefinition> ReadDefinition(std::string_view text, std::string_view domain, std::string_view name,
                                       const BuildOptions& options);

}  // namespace penstock::policy
