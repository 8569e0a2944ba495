#include "api/http_limits.h"

#include <array>

#include "base/bytes.h"
#include "base/json_text.h"
#include "http/problem.h"
#include "http/url.h"
#include "policy/identity.h"

namespace penstock::api {
namespace {

void AppendText(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":");
  AppendJsonString(out, value);
}

void AppendNumber(std::string& out, std::string_view name, int64_t value) {
  out.append(",\"").append(name).append("\":");
  AppendInt(out, value);
}

void AppendParams(std::string& out, const core::Limit& limit) {
  const core::LimitParams& params = limit.params;
  AppendText(out, "algorithm", policy::ToString(params.algorithm));
  if (params.algorithm == core::Algorithm::kFixedWindow)
    AppendText(out, "window", policy::ToString(params.window));
  if (params.kind == core::RateKind::kUnlimited) {
    out += R"(,"limit":null,"unlimited":true)";
  } else {
    AppendNumber(out, "limit", params.capacity);
    AppendNumber(out, "count", params.count);
    AppendNumber(out, "period_us", params.period.count);
  }
  AppendNumber(out, "version", limit.version);
}

void AppendLimit(std::string& out, const core::Limit& limit) {
  out += R"({"domain":)";
  AppendJsonString(out, limit.domain);
  AppendText(out, "name", limit.name);
  AppendText(out, "unit", limit.unit);
  out += R"(,"key":[)";
  for (size_t i = 0; i < limit.key_names.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(out, limit.key_names[i]);
  }
  out += ']';
  AppendParams(out, limit);
  out += limit.shadow ? R"(,"shadow":true)" : R"(,"shadow":false)";
  if (!limit.timezone.empty()) AppendText(out, "timezone", limit.timezone);
}

// All limits of the policy that match; one that follows another of its name is an override of it.
std::string ListJson(const policy::Policy& policy, std::string_view domain, std::string_view name,
                     size_t& found) {
  std::string items;
  const core::Limit* previous = nullptr;
  bool in_overrides = false;
  const auto close = [&] {
    if (previous == nullptr) return;
    items += in_overrides ? "]}" : "}";
  };
  for (const core::Limit* limit : policy.limits()) {
    if (!domain.empty() && (limit->domain != domain || limit->name != name)) continue;
    if (previous != nullptr && limit->domain == previous->domain && limit->name == previous->name) {
      items += in_overrides ? ",{" : R"(,"overrides":[{)";
      std::string params;
      AppendParams(params, *limit);
      items.append(params, 1).append("}");
      in_overrides = true;
      continue;
    }
    close();
    if (found++ > 0) items += ',';
    in_overrides = false;
    previous = limit;
    AppendLimit(items, *limit);
  }
  close();
  return items;
}

}  // namespace

void HttpLimits::Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) {
  std::array<std::string_view, 3> segments;
  const std::string path = "/" + std::string(rest);
  const std::optional<size_t> count = rest.empty() ? 0 : http::SplitPath(path, segments);
  const bool reads = request.method == http::Method::kGet || request.method == http::Method::kHead;
  if (!count || *count == 1 || (*count == 3 && segments[2] != "buckets")) {
    return AnswerError(slot, {ErrorKind::kNotFound, "no such path: /v1/limits[/{domain}/{name}[/buckets]]"});
  }
  if (*count == 3) {
    if (reads || request.method == http::Method::kDelete)
      return Bucket(request, segments[0], segments[1], slot);
  } else if (reads) {
    return List(segments[0], segments[1], slot);
  }
  turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
    http::WriteMethodNotAllowed(out, shape, *count == 3 ? "GET, HEAD, DELETE" : "GET, HEAD");
  });
}

void HttpLimits::List(std::string_view domain, std::string_view name, const HttpSlot& slot) {
  const service::PolicyPointer published = server_.policy();
  size_t found = 0;
  std::string json;
  if (published != nullptr && published->policy != nullptr)
    json = ListJson(*published->policy, domain, name, found);
  if (domain.empty()) {
    json = "[" + json + "]";
  } else if (found == 0) {
    return AnswerError(
        slot, {ErrorKind::kNotFound, "no limit \"" + std::string(name.substr(0, 64)) + "\" in domain \"" +
                                         std::string(domain.substr(0, 64)) + "\""});
  }
  turn_.Answer(slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteJson(out, shape, 200, json); });
}

void HttpLimits::Bucket(const http::Request& request, std::string_view domain, std::string_view name,
                        const HttpSlot& slot) {
  const Result<std::vector<http::QueryParameter>> query = http::ParseQuery(request.query);
  if (!query) return AnswerError(slot, query.error());
  std::vector<Attribute> attributes;
  for (const http::QueryParameter& parameter : *query)
    attributes.push_back({parameter.name, parameter.value});
  service::Request look;
  look.domain = domain;
  look.only_limit = name;
  look.attributes = attributes;
  if (request.method == http::Method::kDelete) {
    look.mode = engine::Mode::kReset;
  } else {
    look.look = true;
  }
  turn_.Submit(look, *this, pending_.Add(slot));
}

void HttpLimits::Decided(uint64_t token, const Result<const Decision*>& decision) noexcept {
  const HttpSlot slot = pending_.Take(token);
  if (!decision) return AnswerError(slot, decision.error());
  if ((*decision)->limits.empty()) {
    return AnswerError(slot, {ErrorKind::kNotFound, "the limit does not apply to these attributes"});
  }
  turn_.Answer(slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteDone(out, shape, **decision); });
}

}  // namespace penstock::api
