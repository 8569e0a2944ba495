#include "api/http_answer.h"

#include "api/decision_json.h"
#include "http/problem.h"
#include "http/structured_fields.h"

namespace penstock::api {
namespace {

Micros ToMicros(std::chrono::microseconds d) { return {d.count()}; }

bool IsFinite(const LimitDecision& limit) { return !limit.shadow && limit.limit >= 0; }

void WriteLists(http::ResponseWriter& writer, const LimitDecisions& limits) {
  http::RateLimitList policies(writer.OpenHeader("RateLimit-Policy"));
  for (size_t i = 0; i < limits.size(); ++i) {
    const LimitDecision& limit = limits[i];
    if (!IsFinite(limit)) continue;
    policies.Policy(
        {.name = limit.name, .quota = limit.limit, .window = ToMicros(limit.window), .unit = limit.unit});
  }
  writer.CloseHeader();
  http::RateLimitList states(writer.OpenHeader("RateLimit"));
  for (size_t i = 0; i < limits.size(); ++i) {
    const LimitDecision& limit = limits[i];
    if (!IsFinite(limit)) continue;
    std::optional<Micros> wait;
    if (limit.outcome == Outcome::kAllowed) wait = ToMicros(limit.reset_after);
    if (limit.outcome == Outcome::kDenied) wait = ToMicros(limit.retry_after);
    states.Limit({.name = limit.name, .remaining = limit.remaining, .wait = wait});
  }
  writer.CloseHeader();
}

http::Problem ProblemOf(const Error& error) {
  http::Problem problem;
  problem.status = HttpStatus(error);
  problem.detail = error.message;
  return problem;
}

}  // namespace

void WriteRateHeaders(http::ResponseWriter& writer, const Decision& decision) {
  bool finite = false;
  for (size_t i = 0; i < decision.limits.size() && !finite; ++i) finite = IsFinite(decision.limits[i]);
  if (finite) WriteLists(writer, decision.limits);
  if (!decision.allowed && decision.outcome == Outcome::kDenied && decision.retry_after) {
    http::WriteRetryAfter(writer, ToMicros(*decision.retry_after));
  }
  if (decision.limit && decision.remaining) {
    http::WritePlainRateLimit(writer, {.limit = *decision.limit,
                                       .remaining = *decision.remaining,
                                       .reset = ToMicros(decision.reset_after)});
  }
  writer.Header("Cache-Control", "no-store");
}

void WriteDecision(std::string& out, const http::ReplyShape& shape, const Decision& decision) {
  http::ResponseWriter writer(out, shape, HttpStatus(decision));
  WriteRateHeaders(writer, decision);
  AppendDecision(writer.BeginBody(http::kJsonType), decision);
  writer.EndBody();
}

void WriteDone(std::string& out, const http::ReplyShape& shape, const Decision& decision) {
  std::string json;
  AppendDecision(json, decision);
  WriteJson(out, shape, decision.outcome == Outcome::kUnavailable && !decision.allowed ? 503 : 200, json);
}

int HttpStatus(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalid:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kConflict:
      return 409;
    case ErrorKind::kTooLarge:
      return 413;
    case ErrorKind::kUnavailable:
      return 503;
    case ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

void WriteError(std::string& out, const http::ReplyShape& shape, const Error& error) {
  http::WriteProblem(out, shape, ProblemOf(error));
}

void AppendErrorItem(std::string& out, const Error& error) { http::AppendProblem(out, ProblemOf(error)); }

void WriteArray(std::string& out, const http::ReplyShape& shape, std::span<const std::string> items) {
  std::string json = "[";
  for (const std::string& item : items) {
    if (json.size() > 1) json += ',';
    json += item;
  }
  json += ']';
  WriteJson(out, shape, 200, json);
}

void WriteJson(std::string& out, const http::ReplyShape& shape, int status, std::string_view json) {
  http::ResponseWriter writer(out, shape, status);
  writer.Header("Cache-Control", "no-store");
  writer.Body(http::kJsonType, json);
}

}  // namespace penstock::api
