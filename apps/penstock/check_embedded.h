// A check that needs no server: a policy, a fresh engine, one decision.
#pragma once

#include <string>

#include "base/result.h"
#include "commands.h"

namespace penstock::app {

// The answer as /v1/check gives it.
Result<std::string> CheckEmbedded(const CheckFlags& flags);

}  // namespace penstock::app
