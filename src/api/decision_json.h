// A Decision as the JSON of /v1/check, and as the item of an array. Appends; no temporary, no allocation beyond the
// output's own.
#pragma once

#include <string>

#include "penstock/decision.h"

namespace penstock::api {

// The object alone, without a status.
void AppendDecision(std::string& out, const Decision& decision);
// The same with `"status":N` as its first member.
void AppendDecisionItem(std::string& out, const Decision& decision);

// 200 when allowed, 429 for denied and never, 503 for unavailable and not allowed.
int HttpStatus(const Decision& decision);

}  // namespace penstock::api
