// A semaphore of the caller's own by key, and permits by their id:
//   PEN.ACQUIRE key permits lease_ms [WEIGHT w] [WAIT ms] [HOLDER h] [REQUESTID id]
//   PEN.RELEASE id …, PEN.RENEW id lease_ms, PEN.HOLDERS key
//
// Thread contract: pure functions of the caller's thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "penstock/decision.h"
#include "resp/writer.h"
#include "service/decider.h"
#include "service/holder_desk.h"
#include "service/permit_desk.h"

namespace penstock::api {

// `args` with the command's name first. The request's views point into them.
Result<void> ReadAcquire(std::span<const std::string_view> args, service::Request& request);
// [1, id, expires_in_ms, fence], nil where it was allowed without a permit; [0, outcome, retry_after_ms or nil, in_use or
// nil].
void WriteAcquired(resp::Writer& writer, const Decision& decision);

// 0 = the limit's own.
Result<std::chrono::milliseconds> ReadRenewal(std::span<const std::string_view> args);
// [1, expires_in_ms], or [0, what became of it].
void WriteRenewed(resp::Writer& writer, const service::PermitAnswer& answer);

// [in_use, waiting, more 0/1, [[id, holder, weight, fence, expires_in_ms], …]]
void WriteHolders(resp::Writer& writer, const service::Holders& holders);
// The error of a command that the engine should have answered.
std::string UnavailableText(Reason reason);

}  // namespace penstock::api
