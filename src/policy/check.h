// What a limit or an override can get wrong by itself, before its rate is compiled. Inside src/policy only.
#pragma once

#include <string>

#include "policy/definition.h"
#include "policy/diagnostics.h"
#include "policy/policy.h"

namespace penstock::policy {

// Each reports what it finds with its line and says whether it found nothing.
bool CheckLimit(const LimitDefinition& limit, const std::string& file, const BuildOptions& options,
                Diagnostics& diagnostics);
bool CheckOverride(const LimitDefinition& limit, const OverrideDefinition& change, const std::string& file,
                   Diagnostics& diagnostics);

}  // namespace penstock::policy
