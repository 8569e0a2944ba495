// PEN.CHECK domain npairs attr value … [COST n] [COSTS n unit cost …] [WEIGHT w] [WAIT ms] [FORCE] [PARTIAL]
// [REQUESTID id] [HOLDER h] [LEASE ms]: a check under the policy.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "penstock/decision.h"
#include "resp/writer.h"
#include "service/decider.h"

namespace penstock::api {

// What the request's spans point into; reused between commands.
struct RespCheckScratch {
  std::vector<Attribute> attributes;
  std::vector<UnitCost> costs;
};

// `args` with the command's name first. The request's views point into them and into the scratch.
Result<void> ReadRespCheck(std::span<const std::string_view> args, RespCheckScratch& scratch,
                           service::Request& request);

// [allowed 0/1, outcome, limit, remaining, retry_after_ms, reset_after_ms, wait_ms, degraded 0/1, permit id or nil,
// expires_in_ms or nil, fence or nil, taken (unit, n, …) or nil, replayed 0/1, replayable 0/1]; later fields are only
// appended.
void WriteRespCheck(resp::Writer& writer, const Decision& decision);

}  // namespace penstock::api
