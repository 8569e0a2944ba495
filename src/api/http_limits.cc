#include "api/http_limits.h"

#include <array>

#include "base/bytes.h"
#include "base/json_text.h"
#include "engine/registry_book.h"
#include "http/problem.h"
#include "http/url.h"
#include "policy/definition.h"
#include "policy/diagnostics.h"
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
  AppendText(out, "algorithm", core::ToString(params.algorithm));
  if (params.algorithm == core::Algorithm::kFixedWindow)
    AppendText(out, "window", core::ToString(params.window));
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

void AppendSource(std::string& out, bool put, int64_t revision) {
  AppendText(out, "source", put ? "put" : "file");
  if (revision > 0) AppendNumber(out, "revision", revision);
}

// All limits of the policy that match; one that follows another of its name is an override of it.
std::string ListJson(const service::PublishedPolicy& published, std::string_view domain,
                     std::string_view name, size_t& found) {
  const policy::Policy& policy = *published.policy;
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
    if (limit->number >= published.sources.size()) continue;
    const service::LimitSource& source = published.sources[limit->number];
    AppendSource(items, source.put, source.revision);
    if (!domain.empty() && source.definition != nullptr)
      items.append(R"(,"definition":)").append(*source.definition);
  }
  close();
  return items;
}

// The limit's own entry, not an override's; null: the policy has none of that name.
const core::Limit* FindLimit(const service::PolicyPointer& published, std::string_view domain,
                             std::string_view name) {
  if (published == nullptr || published->policy == nullptr) return nullptr;
  for (const core::Limit* limit : published->policy->limits()) {
    if (limit->name == name && limit->domain == domain) return limit;
  }
  return nullptr;
}

std::string Tag(core::Version version) {
  std::string tag = "\"";
  AppendInt(tag, version);
  return tag + "\"";
}

void WriteTagged(std::string& out, const http::ReplyShape& shape, int status, core::Version version,
                 std::string_view json) {
  http::ResponseWriter writer(out, shape, status);
  writer.Header("Cache-Control", "no-store");
  writer.Header("ETag", Tag(version));
  writer.Body(http::kJsonType, json);
}

// If-Match: "1785…", with or without quotes.
Result<core::Version> ReadTag(std::string_view tag) {
  if (tag.starts_with("W/")) tag.remove_prefix(2);
  if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') tag = tag.substr(1, tag.size() - 2);
  const std::optional<int64_t> version = ParseInt(tag);
  if (!version) return Invalid("If-Match is one version, as ETag says it, or *");
  return *version;
}

}  // namespace

void HttpLimits::Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) {
  std::array<std::string_view, 3> segments;
  const std::string path = "/" + std::string(rest);
  const std::optional<size_t> count = rest.empty() ? 0 : http::SplitPath(path, segments);
  const bool reads = request.method == http::Method::kGet || request.method == http::Method::kHead;
  if (!count || *count == 1 || (*count == 3 && segments[2] != "buckets" && segments[2] != "holders")) {
    return AnswerError(
        slot, {ErrorKind::kNotFound, "no such path: /v1/limits[/{domain}/{name}[/buckets or /holders]]"});
  }
  if (*count == 3) {
    if (segments[2] == "holders") return holders_.OfLimit(request, segments[0], segments[1], slot);
    if (reads || request.method == http::Method::kDelete)
      return Bucket(request, segments[0], segments[1], slot);
  } else if (reads) {
    return List(segments[0], segments[1], slot);
  } else if (*count == 2 && changes_ != nullptr &&
             (request.method == http::Method::kPut || request.method == http::Method::kDelete)) {
    return Change(request, segments[0], segments[1], slot);
  }
  const bool changes = *count == 2 && changes_ != nullptr;
  turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
    http::WriteMethodNotAllowed(out, shape,
                                *count == 3 ? "GET, HEAD, DELETE"
                                : changes   ? "GET, HEAD, PUT, DELETE"
                                            : "GET, HEAD");
  });
}

void HttpLimits::List(std::string_view domain, std::string_view name, const HttpSlot& slot) {
  const service::PolicyPointer published = server_.policy();
  size_t found = 0;
  std::string json;
  if (published != nullptr && published->policy != nullptr) json = ListJson(*published, domain, name, found);
  if (domain.empty()) {
    json = "[" + json + "]";
  } else if (found == 0) {
    return AnswerError(
        slot, {ErrorKind::kNotFound, "no limit \"" + std::string(name.substr(0, 64)) + "\" in domain \"" +
                                         std::string(domain.substr(0, 64)) + "\""});
  }
  const core::Limit* const limit = domain.empty() ? nullptr : FindLimit(published, domain, name);
  turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
    if (limit == nullptr) return WriteJson(out, shape, 200, json);
    WriteTagged(out, shape, 200, limit->version, json);
  });
}

bool HttpLimits::Exists(std::string_view domain, std::string_view name) const {
  return FindLimit(server_.policy(), domain, name) != nullptr;
}

void HttpLimits::Change(const http::Request& request, std::string_view domain, std::string_view name,
                        const HttpSlot& slot) {
  for (const std::string_view word : {domain, name}) {
    if (!policy::IsValidName(word)) {
      return AnswerError(slot, {ErrorKind::kInvalid, "the path says " + policy::Quoted(word) +
                                                         ", which is not 1 to 64 of A-Z a-z 0-9 . _ -"});
    }
  }
  const bool exists = Exists(domain, name);
  std::optional<core::Version> if_match;
  if (const std::string_view tag = request.Find("If-Match"); tag == "*") {
    if (!exists) return Changed(slot, 200, engine::VersionRefused(0));
  } else if (!tag.empty()) {
    const Result<core::Version> version = ReadTag(tag);
    if (!version) return AnswerError(slot, version.error());
    if_match = *version;
  }
  if (request.method == http::Method::kDelete) {
    return changes_->Remove(
        std::string(domain), std::string(name), if_match,
        [this, slot](const Result<engine::RegisteredLimit>& removed) { Changed(slot, 200, removed); });
  }
  changes_->Put(std::string(domain), std::string(name), std::string(request.body), if_match,
                [this, slot, status = exists ? 200 : 201](const Result<engine::RegisteredLimit>& put) {
                  Changed(slot, status, put);
                });
}

void HttpLimits::Changed(const HttpSlot& slot, int status, const Result<engine::RegisteredLimit>& changed) {
  constexpr int kPreconditionFailed = 412;
  if (!changed && changed.error().kind == ErrorKind::kConflict) {
    turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
      http::WriteProblem(out, shape, {.status = kPreconditionFailed, .detail = changed.error().message});
    });
    return;
  }
  if (!changed) return AnswerError(slot, changed.error());
  std::string json = R"({"domain":)";
  AppendJsonString(json, changed->domain);
  AppendText(json, "name", changed->name);
  AppendNumber(json, "version", changed->version);
  if (changed->definition.empty()) {
    json += R"(,"source":null})";
  } else {
    AppendSource(json, changed->put, changed->revision);
    json.append(R"(,"definition":)").append(changed->definition).append("}");
  }
  turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
    WriteTagged(out, shape, status, changed->version, json);
  });
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
  turn_.Submit(look, For(slot));
}

void HttpLimits::Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept {
  if (!decision) return AnswerError(ask.slot, decision.error());
  if ((*decision)->limits.empty()) {
    return AnswerError(ask.slot, {ErrorKind::kNotFound, "the limit does not apply to these attributes"});
  }
  turn_.Answer(ask.slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteDone(out, shape, **decision); });
}

}  // namespace penstock::api
