#include "api/resp_throttle.h"

#include <string>

#include "api/milliseconds.h"
#include "api/resp_permits.h"
#include "base/bytes.h"

namespace penstock::api {
namespace {

Result<int64_t> ReadNumber(std::string_view text, const char* name, int64_t least, int64_t most) {
  const std::optional<int64_t> value = ParseInt(text);
  if (!value) return Invalid(std::string(name) + " must be a whole number");
  if (*value < least || *value > most) {
    return Invalid(std::string(name) + " must be from " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  return *value;
}

}  // namespace

Result<void> ReadThrottle(std::span<const std::string_view> args, service::Request& request) {
  constexpr int64_t kMaxPeriodSeconds = core::kMaxExact / 1'000'000;
  const Result<int64_t> max_burst = ReadNumber(args[2], "max_burst", 0, kMaxCost - 1);
  if (!max_burst) return tl::unexpected(max_burst.error());
  const Result<int64_t> count = ReadNumber(args[3], "count", 1, core::kMaxExact);
  if (!count) return tl::unexpected(count.error());
  const Result<int64_t> period = ReadNumber(args[4], "period", 1, kMaxPeriodSeconds);
  if (!period) return tl::unexpected(period.error());
  int64_t quantity = 1;
  if (args.size() > 5) {
    const Result<int64_t> read = ReadNumber(args[5], "quantity", 0, kMaxCost);
    if (!read) return tl::unexpected(read.error());
    quantity = *read;
  }
  core::RateSpec spec;
  spec.count = *count;
  spec.period = Seconds(*period);
  spec.burst = *max_burst + 1;
  request.ad_hoc = spec;
  request.ad_hoc_key = args[1];
  request.options.cost = quantity;
  return {};
}

void WriteThrottle(resp::Writer& writer, const Decision& decision, int64_t capacity) {
  if (decision.outcome == Outcome::kUnavailable && !decision.allowed) {
    writer.Error(UnavailableText(decision.reason));
    return;
  }
  const bool waits = !decision.allowed && decision.retry_after.has_value();
  writer.Integers({decision.allowed ? 0 : 1, decision.limit.value_or(capacity),
                   decision.remaining.value_or(0), waits ? ToCeilSeconds(*decision.retry_after) : -1,
                   ToCeilSeconds(decision.reset_after)});
}

}  // namespace penstock::api
