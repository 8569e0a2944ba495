#include "api/resp_permits.h"

#include "api/ad_hoc_limit.h"
#include "api/milliseconds.h"
#include "api/resp_arguments.h"
#include "api/resp_optional.h"

namespace penstock::api {
namespace {

struct Target {
  Arguments& args;
  CheckOptions& options;
};

constexpr Option<Target> kOptions[] = {
    {"weight", [](Target& t) { return Number(t.args, "WEIGHT", 1, kMaxCost, t.options.weight); }},
    {"wait", [](Target& t) { return Number(t.args, "WAIT", 0, kMaxWaitMs, t.options.max_wait); }},
    {"holder", [](Target& t) { return Text(t.args, "HOLDER", kMaxHolderBytes, t.options.holder); }},
    {"requestid",
     [](Target& t) { return Text(t.args, "REQUESTID", kMaxRequestIdBytes, t.options.request_id); }},
};

}  // namespace

Result<void> ReadAcquire(std::span<const std::string_view> args, service::Request& request) {
  request.ad_hoc_key = args[1];
  Arguments left(args.subspan(2));
  const Result<int64_t> permits = left.TakeNumber("permits", 1, kMaxCost);
  if (!permits) return tl::unexpected(permits.error());
  const Result<int64_t> lease_ms = left.TakeNumber("lease_ms", kMinLeaseMs, kMaxLeaseMs);
  if (!lease_ms) return tl::unexpected(lease_ms.error());
  request.ad_hoc = AdHocPermits(*permits, Millis(*lease_ms));
  Target target{left, request.options};
  return ReadOptions<Target>(kOptions, target);
}

void WriteAcquired(resp::Writer& writer, const Decision& decision) {
  writer.Array(4);
  writer.Integer(decision.allowed ? 1 : 0);
  if (!decision.allowed) {
    writer.Bulk(ToString(decision.outcome));
    WriteOptional(writer, RetryAfterMs(decision));
    const bool known = decision.limit && decision.remaining;
    WriteOptional(writer, known ? std::optional(*decision.limit - *decision.remaining) : std::nullopt);
  } else if (decision.permit) {
    writer.Bulk(decision.permit->id.view());
    writer.Integer(ToFloorMs(decision.permit->expires_in));
    WriteOptional(writer, decision.permit->fence);
  } else {
    for (int i = 0; i < 3; ++i) writer.Null();
  }
}

Result<std::chrono::milliseconds> ReadRenewal(std::span<const std::string_view> args) {
  Arguments left(args.subspan(2));
  const Result<int64_t> lease_ms = left.TakeNumber("lease_ms", 0, kMaxLeaseMs);
  if (!lease_ms) return tl::unexpected(lease_ms.error());
  if (*lease_ms > 0 && *lease_ms < kMinLeaseMs) {
    return Invalid("lease_ms must be 0, for the limit's own, or from " + std::to_string(kMinLeaseMs) +
                   " to " + std::to_string(kMaxLeaseMs));
  }
  return std::chrono::milliseconds(*lease_ms);
}

void WriteRenewed(resp::Writer& writer, const service::PermitAnswer& answer) {
  writer.Array(2);
  const bool renewed = answer.fate == core::PermitFate::kRenewed;
  writer.Integer(renewed ? 1 : 0);
  if (renewed) {
    writer.Integer(ToFloorMs(answer.expires_in));
  } else {
    writer.Bulk(ToString(answer.fate));
  }
}

void WriteHolders(resp::Writer& writer, const service::Holders& holders) {
  writer.Array(4);
  writer.Integer(holders.in_use);
  writer.Integer(holders.waiting);
  writer.Integer(holders.more ? 1 : 0);
  writer.Array(holders.entries.size());
  for (const service::HolderInfo& entry : holders.entries) {
    writer.Array(5);
    writer.Bulk(entry.id.view());
    writer.Bulk(entry.holder);
    writer.Integer(entry.weight);
    writer.Integer(entry.fence);
    writer.Integer(ToFloorMs(entry.expires_in));
  }
}

std::string UnavailableText(Reason reason) {
  return "UNAVAILABLE the engine could not be asked: " + std::string(ToString(reason));
}

}  // namespace penstock::api
