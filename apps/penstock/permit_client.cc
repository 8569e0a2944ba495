#include "permit_client.h"

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "base/bytes.h"
#include "base/json_text.h"
#include "json_fields.h"
#include "policy/rate.h"
#include "request_text.h"

namespace penstock::app {
namespace {

namespace json = boost::json;

constexpr int kServerError = 500;
constexpr int kClientError = 400;
constexpr int kTooMany = 429;  // a verdict, not a mistake

void AppendField(std::string& body, std::string_view name, int64_t value) {
  body += ",\"";
  body += name;
  body += "\":";
  AppendInt(body, value);
}

void AppendField(std::string& body, std::string_view name, std::string_view value) {
  body += ",\"";
  body += name;
  body += "\":";
  AppendJsonString(body, value);
}

// Where buckets are: {"domain":…,"attributes":… or {"key":…,"limit":…
Result<std::string> Place(const PermitFlags& flags) {
  std::string body;
  if (flags.key.empty() == flags.domain.empty())
    return Invalid("say whose permit: a DOMAIN with attributes, or --key with --permits");
  if (flags.key.empty()) {
    if (flags.permits != 0)
      return Invalid("--permits goes with --key; how many a DOMAIN has, its policy says");
    body = "{\"domain\":";
    AppendJsonString(body, flags.domain);
    body += ",\"attributes\":";
    if (const Result<void> attributes = AppendAttributes(body, flags.attributes); !attributes)
      return tl::unexpected(attributes.error());
    return body;
  }
  if (!flags.attributes.empty()) return Invalid("attributes go with a DOMAIN, not with --key");
  if (flags.permits == 0) return Invalid("--key needs --permits N, and --lease if it is not to be 30s");
  body = "{\"key\":";
  AppendJsonString(body, flags.key);
  body += ",\"limit\":{\"permits\":";
  AppendInt(body, flags.permits);
  if (!flags.lease.empty()) AppendField(body, "lease", flags.lease);
  body += '}';
  return body;
}

Result<json::value> Parse(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || (!value.is_object() && !value.is_array()))
    return Fail(ErrorKind::kUnavailable, "the server's answer is no JSON");
  return value;
}

std::string Detail(const json::value& answer, int status) {
  if (answer.is_object() && answer.as_object().contains("detail")) return Text(answer.as_object(), "detail");
  return "the server answers " + std::to_string(status);
}

core::PermitFate FateOf(std::string_view word) {
  using enum core::PermitFate;
  for (const core::PermitFate fate : {kReleased, kRenewed, kExpired, kUnknown}) {
    if (core::ToString(fate) == word) return fate;
  }
  return kUnavailable;
}

}  // namespace

Result<int64_t> FlagMillis(std::string_view flag, std::string_view text) {
  if (text.empty()) return 0;
  const Result<Micros> duration = policy::ParseDuration(text);
  if (!duration) return Invalid(std::string(flag) + ": " + duration.error().message);
  const int64_t ms = CeilMillis(*duration);
  if (ms > std::numeric_limits<int>::max() / 2)
    return Invalid(std::string(flag) + ": '" + std::string(text) + "' is longer than a server takes");
  return ms;
}

Result<std::string> AcquireBody(const PermitFlags& flags) {
  Result<std::string> body = Place(flags);
  if (!body) return body;
  AppendField(*body, "cost", flags.cost);
  AppendField(*body, "weight", flags.weight);
  const Result<int64_t> wait = FlagMillis("--wait", flags.wait);
  if (!wait) return tl::unexpected(wait.error());
  if (*wait != 0) AppendField(*body, "max_wait_ms", *wait);
  const Result<int64_t> lease = FlagMillis("--lease", flags.lease);
  if (!lease) return tl::unexpected(lease.error());
  if (*lease != 0 && flags.key.empty()) AppendField(*body, "lease_ms", *lease);
  if (!flags.holder.empty()) AppendField(*body, "holder", flags.holder);
  if (!flags.request_id.empty()) AppendField(*body, "request_id", flags.request_id);
  *body += '}';
  return body;
}

Result<PermitAnswer> ReadPermitAnswer(std::string text) {
  const Result<json::value> value = Parse(text);
  if (!value) return tl::unexpected(value.error());
  if (!value->is_object() || !value->as_object().contains("outcome"))
    return Invalid(Detail(*value, kClientError));
  const json::object& object = value->as_object();
  PermitAnswer answer;
  answer.allowed = Flag(object, "allowed");
  answer.degraded = Flag(object, "degraded");
  answer.outcome = Text(object, "outcome");
  if (object.contains("reason")) answer.reason = Text(object, "reason");
  answer.limit = Text(object, "limit");
  answer.remaining = Text(object, "remaining");
  answer.retry_after_ms = Text(object, "retry_after_ms");
  const json::value* const limits = object.if_contains("limits");
  answer.any_limit = limits != nullptr && limits->is_array() && !limits->as_array().empty();
  if (const json::value* const permit = object.if_contains("permit");
      permit != nullptr && permit->is_object()) {
    const json::object& granted = permit->as_object();
    answer.id = Text(granted, "id");
    answer.expires_in_ms = Number(granted, "expires_in_ms");
    answer.waited_ms = Number(granted, "waited_ms");
    if (const json::value* const fence = granted.if_contains("fence"); fence != nullptr && fence->is_int64())
      answer.fence = fence->as_int64();
  }
  answer.json = std::move(text);
  return answer;
}

Result<PermitFateAnswer> ReadPermitFate(const HttpReply& reply) {
  const Result<json::value> value = Parse(reply.body);
  if (!value) return tl::unexpected(value.error());
  // One id is answered by an object, a list of them by a list.
  const json::value* one = &*value;
  if (one->is_array() && one->as_array().size() == 1) one = &one->as_array().front();
  if (!one->is_object() || !one->as_object().contains("result")) {
    const bool ours = reply.status >= kClientError && reply.status < kServerError && reply.status != kTooMany;
    return Fail(ours ? ErrorKind::kInvalid : ErrorKind::kUnavailable, Detail(*value, reply.status));
  }
  return PermitFateAnswer{FateOf(Text(one->as_object(), "result")),
                          Number(one->as_object(), "expires_in_ms")};
}

Result<PermitClient> PermitClient::Of(const std::string& server) {
  Result<ServerUrl> url = ParseServerUrl(server.empty() ? "http://127.0.0.1:8080" : server);
  if (!url) return tl::unexpected(url.error());
  return PermitClient(*std::move(url), TokenFromEnvironment());
}

Result<PermitAnswer> PermitClient::Acquire(std::string_view body, int64_t wait_ms, int cancel_fd) const {
  Result<HttpReply> reply = Call(server_, {.target = "/v1/check",
                                           .token = token_,
                                           .body = body,
                                           .timeout_ms = kPatienceMs + static_cast<int>(wait_ms),
                                           .cancel_fd = cancel_fd});
  if (!reply) return tl::unexpected(reply.error());
  return ReadPermitAnswer(std::move(reply->body));
}

Result<PermitFateAnswer> PermitClient::Renew(std::string_view id, int64_t lease_ms, int timeout_ms,
                                             int cancel_fd) const {
  std::string body = "{\"id\":";
  AppendJsonString(body, id);
  if (lease_ms != 0) AppendField(body, "lease_ms", lease_ms);
  body += '}';
  return Settle("/v1/renew", body, timeout_ms, cancel_fd);
}

Result<PermitFateAnswer> PermitClient::Release(std::string_view id, int timeout_ms) const {
  std::string body = "{\"id\":";
  AppendJsonString(body, id);
  body += '}';
  return Settle("/v1/release", body, timeout_ms, -1);
}

Result<PermitFateAnswer> PermitClient::Settle(std::string_view target, std::string_view body, int timeout_ms,
                                              int cancel_fd) const {
  const Result<HttpReply> reply = Call(
      server_,
      {.target = target, .token = token_, .body = body, .timeout_ms = timeout_ms, .cancel_fd = cancel_fd});
  if (!reply) return tl::unexpected(reply.error());
  return ReadPermitFate(*reply);
}

Result<std::string> PermitClient::Ask(std::string_view method, std::string_view target,
                                      std::string_view body) const {
  Result<HttpReply> reply =
      Call(server_,
           {.method = method, .target = target, .token = token_, .body = body, .timeout_ms = kPatienceMs});
  if (!reply) return tl::unexpected(reply.error());
  const Result<json::value> value = Parse(reply->body);
  if (!value) return tl::unexpected(value.error());
  if (reply->status >= kClientError) {
    return Fail(reply->status >= kServerError ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
                Detail(*value, reply->status));
  }
  return std::move(reply->body);
}

int ComplainOf(const Error& error) {
  return Complain(error.kind == ErrorKind::kUnavailable ? kExitUnavailable : kExitUsage, error.message);
}

}  // namespace penstock::app
