// What about a limit or a domain is probably not meant. Inside src/policy only.
#pragma once

#include <string>
#include <vector>

#include "policy/definition.h"

namespace penstock::policy {

// One sentence each. The definition must compile.
std::vector<std::string> LimitWarnings(const LimitDefinition& limit);
std::vector<std::string> DomainWarnings(const DomainDefinition& domain);

}  // namespace penstock::policy
