#include "api/http_auth.h"

#include "api/decision_json.h"
#include "base/bytes.h"
#include "http/forwarded.h"
#include "http/url.h"

namespace penstock::api {

struct HttpAuth::Options {
  int64_t cost = 1;
  int deny_status = 0;
};

namespace {

using http::Known;

std::string_view FirstOf(std::initializer_list<std::string_view> candidates) {
  for (const std::string_view candidate : candidates) {
    if (!candidate.empty()) return candidate;
  }
  return {};
}

// The path of a target or of an absolute URL, without its query.
std::string_view PathOf(std::string_view uri) {
  const size_t scheme = uri.find("://");
  if (scheme != std::string_view::npos && scheme < uri.find('/')) {
    const size_t slash = uri.find('/', scheme + 3);
    uri = slash == std::string_view::npos ? std::string_view("/") : uri.substr(slash);
  }
  return http::SplitTarget(uri).path;
}

}  // namespace

Result<void> HttpAuth::ReadQuery(const http::Request& request, Options& options) {
  Result<std::vector<http::QueryParameter>> query = http::ParseQuery(request.query);
  if (!query) return tl::unexpected(std::move(query.error()));
  header_names_.clear();
  for (http::QueryParameter& parameter : *query) {
    if (parameter.name == "cost") {
      const std::optional<int64_t> cost = ParseInt(parameter.value);
      if (!cost || *cost < 0 || *cost > kMaxCost) return Invalid("cost: must be from 0 to 2147483647");
      options.cost = *cost;
    } else if (parameter.name == "deny_status") {
      const std::optional<int64_t> status = ParseInt(parameter.value);
      if (!status || *status < 400 || *status > 499) return Invalid("deny_status: must be from 400 to 499");
      options.deny_status = static_cast<int>(*status);
    } else if (parameter.name == "header") {
      const size_t colon = parameter.value.find(':');
      if (colon == std::string::npos || colon == 0 || colon + 1 == parameter.value.size()) {
        return Invalid("header: must be Header-Name:attribute");
      }
      header_names_.emplace_back(parameter.value.substr(0, colon), parameter.value.substr(colon + 1));
    } else {
      return Invalid("unknown parameter \"" + parameter.name.substr(0, 64) +
                     "\"; cost, deny_status and header are taken");
    }
  }
  return {};
}

void HttpAuth::Describe(const http::Request& request, std::string_view rest, const HttpSlot& slot) {
  const IpAddress* const peer = slot.peer->address();
  const bool trusted = peer != nullptr && http::IsTrusted(*peer, trusted_proxies_);
  std::string_view method = request.method_text;
  std::string_view host = request.Get(Known::kHost);
  std::string_view uri = rest;
  if (trusted) {
    method = FirstOf({request.Get(Known::kOriginalMethod), request.Get(Known::kForwardedMethod), method});
    host = FirstOf({request.Get(Known::kForwardedHost), host});
    uri = FirstOf({request.Get(Known::kOriginalUri), request.Get(Known::kOriginalUrl),
                   request.Get(Known::kForwardedUri), uri});
  }
  attributes_.clear();
  attributes_.push_back({"method", method});
  path_.clear();
  if (!http::AppendNormalPath(path_, PathOf(uri))) path_.assign(PathOf(uri));  // not a path: a key of its own
  if (path_.empty()) path_ = "/";
  attributes_.push_back({"path", path_});
  if (!host.empty()) attributes_.push_back({"host", host});
  if (peer != nullptr) {
    ip_.clear();
    http::ClientAddress(*peer, request, trusted_proxies_).AppendText(ip_);
    attributes_.push_back({"ip", ip_});
  }
  for (const auto& [header, attribute] : header_names_) {
    const std::string_view value = request.Find(header);
    if (!value.empty()) attributes_.push_back({attribute, value});
  }
}

void HttpAuth::Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) {
  const size_t slash = rest.find('/');
  domain_.clear();
  if (!http::AppendDecoded(domain_, rest.substr(0, slash)) || domain_.empty()) {
    return AnswerError(slot, {ErrorKind::kNotFound, "the path must name a domain: /auth/{domain}"});
  }
  Options options;
  if (Result<void> read = ReadQuery(request, options); !read) return AnswerError(slot, read.error());
  Describe(request, slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash), slot);
  service::Request check;
  check.domain = domain_;
  check.attributes = attributes_;
  check.options.cost = options.cost;
  check.without_permits = true;
  HttpAsk ask = For(slot);
  ask.timed = true;
  ask.note = options.deny_status;
  turn_.Submit(check, std::move(ask));
}

void HttpAuth::Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept {
  if (!decision) return AnswerError(ask.slot, decision.error());
  turn_.Answer(ask.slot, [&](std::string& out, const http::ReplyShape& shape) {
    int status = HttpStatus(**decision);
    if (status != 200 && ask.note != 0) status = static_cast<int>(ask.note);
    http::ResponseWriter writer(out, shape, status);
    writer.Header("X-Penstock-Outcome", ToString((*decision)->outcome));
    WriteRateHeaders(writer, **decision);
    writer.NoBody();
  });
}

}  // namespace penstock::api
