#include "api/decision_json.h"

#include "api/milliseconds.h"
#include "base/bytes.h"
#include "base/json_text.h"

namespace penstock::api {
namespace {

void AppendOptional(std::string& out, std::string_view name, const std::optional<int64_t>& value) {
  out += name;
  if (value) {
    AppendInt(out, *value);
  } else {
    out += "null";
  }
}

// A limit's own capacity or remainder: -1 is unlimited, which JSON says as null.
void AppendFinite(std::string& out, std::string_view name, int64_t value) {
  AppendOptional(out, name, value < 0 ? std::nullopt : std::optional(value));
}

void AppendNumber(std::string& out, std::string_view name, int64_t value) {
  out += name;
  AppendInt(out, value);
}

void AppendFlag(std::string& out, std::string_view name, bool value) {
  out += name;
  out += value ? "true" : "false";
}

void AppendLimit(std::string& out, const LimitDecision& limit) {
  out += R"({"name":)";
  AppendJsonString(out, limit.name);
  out += R"(,"outcome":")";
  out += ToString(limit.outcome);
  out += '"';
  AppendFinite(out, R"(,"limit":)", limit.limit);
  AppendFinite(out, R"(,"remaining":)", limit.remaining);
  AppendOptional(out, R"(,"retry_after_ms":)", RetryAfterMs(limit));
  AppendNumber(out, R"(,"reset_after_ms":)", ToCeilMs(limit.reset_after));
  AppendFlag(out, R"(,"shadow":)", limit.shadow);
  if (limit.saturated) out += R"(,"saturated":true)";
  if (limit.degraded) out += R"(,"degraded":true)";
  if (limit.fence > 0) {
    AppendNumber(out, R"(,"fence":)", limit.fence);
    AppendNumber(out, R"(,"expires_in_ms":)", ToFloorMs(limit.expires_in));
  }
  out += '}';
}

void AppendPermit(std::string& out, const PermitGrant& permit) {
  out += R"(,"permit":{"id":")";
  out += permit.id.view();  // base64url
  out += '"';
  if (permit.fence) AppendNumber(out, R"(,"fence":)", *permit.fence);
  AppendNumber(out, R"(,"expires_in_ms":)", ToFloorMs(permit.expires_in));
  AppendNumber(out, R"(,"waited_ms":)", ToFloorMs(permit.waited));
  out += '}';
}

void AppendMembers(std::string& out, const Decision& decision) {
  AppendFlag(out, R"("allowed":)", decision.allowed);
  out += R"(,"outcome":")";
  out += ToString(decision.outcome);
  out += '"';
  AppendOptional(out, R"(,"limit":)", decision.limit);
  AppendOptional(out, R"(,"remaining":)", decision.remaining);
  AppendOptional(out, R"(,"retry_after_ms":)", RetryAfterMs(decision));
  AppendNumber(out, R"(,"reset_after_ms":)", ToCeilMs(decision.reset_after));
  AppendNumber(out, R"(,"wait_ms":)", ToCeilMs(decision.wait));
  AppendFlag(out, R"(,"degraded":)", decision.degraded);
  if (decision.reason != Reason::kNone) {
    out += R"(,"reason":")";
    out += ToString(decision.reason);
    out += '"';
  }
  if (decision.replayed) out += R"(,"replayed":true)";
  if (!decision.replayable) out += R"(,"replayable":false)";
  if (decision.saturated) out += R"(,"saturated":true)";
  if (!decision.taken.empty()) {
    char separator = '{';
    out += R"(,"taken":)";
    for (const TakenUnit& taken : decision.taken) {
      out += separator;
      AppendJsonString(out, taken.unit);
      out += ':';
      AppendInt(out, taken.taken);
      separator = ',';
    }
    out += '}';
  }
  out += R"(,"limits":[)";
  for (size_t i = 0; i < decision.limits.size(); ++i) {
    if (i > 0) out += ',';
    AppendLimit(out, decision.limits[i]);
  }
  out += ']';
  if (decision.permit) AppendPermit(out, *decision.permit);
  out += '}';
}

}  // namespace

void AppendDecision(std::string& out, const Decision& decision) {
  out += '{';
  AppendMembers(out, decision);
}

void AppendDecisionItem(std::string& out, const Decision& decision) {
  out += R"({"status":)";
  AppendInt(out, HttpStatus(decision));
  out += ',';
  AppendMembers(out, decision);
}

int HttpStatus(const Decision& decision) {
  if (decision.allowed) return 200;
  return decision.outcome == Outcome::kUnavailable ? 503 : 429;
}

}  // namespace penstock::api
