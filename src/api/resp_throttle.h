// CL.THROTTLE key max_burst count period [quantity], as redis-cell speaks it: an ad hoc token bucket.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "penstock/decision.h"
#include "resp/writer.h"
#include "service/decider.h"

namespace penstock::api {

// `args` with the command's name first. The request's views point into them. Errors carry no code ("ERR").
Result<void> ReadThrottle(std::span<const std::string_view> args, service::Request& request);

// Five integers: limited 0/1, max_burst + 1, remaining, retry_after (-1 when allowed, or when the quantity can never
// pass), reset_after; whole seconds rounded up. An engine that could not be asked and whose limit then denies is an
// error: redis-cell has no number for it.
void WriteThrottle(resp::Writer& writer, const Decision& decision, int64_t capacity);

}  // namespace penstock::api
