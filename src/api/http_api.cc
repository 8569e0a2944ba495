#include "api/http_api.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "http/problem.h"

namespace penstock::api {

// One line a path: whom it goes to, with which methods, and how a configured token is shown.
struct HttpApi::Route {
  enum class Methods : uint8_t { kPost, kGet, kAny };
  enum class Token : uint8_t { kBearer, kPenstockHeader, kNone };

  std::string_view path;
  bool prefix;  // what follows the path is the verb's
  Methods methods;
  Token token;
  HttpVerb& (*verb)(HttpApi& api);
};

namespace {

constexpr std::string_view kBearer = "Bearer ";

bool StartsWithBearer(std::string_view value) {
  return value.size() > kBearer.size() && EqualsIgnoringCase(value.substr(0, kBearer.size()), kBearer);
}

}  // namespace

HttpApi::HttpApi(service::Decider& decider, const Clock& clock, const HttpOptions& options,
                 const ServerView& server, LimitChanges* changes)
    : options_(options),
      turn_(decider, clock),
      check_(turn_, body_),
      settle_(turn_, body_),
      release_(turn_, body_, CheckBody::PermitVerb::kRelease),
      renew_(turn_, body_, CheckBody::PermitVerb::kRenew),
      holders_(turn_),
      limits_(turn_, server, changes, holders_),
      auth_(turn_, options.trusted_proxies),
      metrics_(turn_, server),
      health_(turn_),
      ready_(turn_, server) {}

const HttpApi::Route* HttpApi::Find(std::string_view path, std::string_view& rest) const {
  using Methods = Route::Methods;
  using Token = Route::Token;
  static constexpr Route kRoutes[] = {
      {"/v1/check", false, Methods::kPost, Token::kBearer, [](HttpApi& a) -> HttpVerb& { return a.check_; }},
      {"/v1/settle", false, Methods::kPost, Token::kBearer,
       [](HttpApi& a) -> HttpVerb& { return a.settle_; }},
      {"/v1/release", false, Methods::kPost, Token::kBearer,
       [](HttpApi& a) -> HttpVerb& { return a.release_; }},
      {"/v1/renew", false, Methods::kPost, Token::kBearer, [](HttpApi& a) -> HttpVerb& { return a.renew_; }},
      {"/v1/holders", false, Methods::kAny, Token::kBearer,
       [](HttpApi& a) -> HttpVerb& { return a.holders_; }},
      {"/v1/limits", true, Methods::kAny, Token::kBearer, [](HttpApi& a) -> HttpVerb& { return a.limits_; }},
      {"/auth", true, Methods::kAny, Token::kPenstockHeader, [](HttpApi& a) -> HttpVerb& { return a.auth_; }},
      {"/metrics", false, Methods::kGet, Token::kBearer, [](HttpApi& a) -> HttpVerb& { return a.metrics_; }},
      {"/healthz", false, Methods::kGet, Token::kNone, [](HttpApi& a) -> HttpVerb& { return a.health_; }},
      {"/readyz", false, Methods::kGet, Token::kNone, [](HttpApi& a) -> HttpVerb& { return a.ready_; }},
  };
  for (const Route& route : kRoutes) {
    if (path == route.path) {
      rest = {};
      return &route;
    }
    if (route.prefix && path.size() > route.path.size() && path.substr(0, route.path.size()) == route.path &&
        path[route.path.size()] == '/') {
      rest = path.substr(route.path.size() + 1);
      return &route;
    }
  }
  return nullptr;
}

bool HttpApi::ShowsToken(const Route& route, const http::Request& request) const {
  if (options_.token.empty() || route.token == Route::Token::kNone) return true;
  if (route.token == Route::Token::kPenstockHeader) {
    return ConstantTimeEquals(options_.token, request.Get(http::Known::kPenstockToken));
  }
  const std::string_view authorization = request.Get(http::Known::kAuthorization);
  return StartsWithBearer(authorization) &&
         ConstantTimeEquals(options_.token, authorization.substr(kBearer.size()));
}

void HttpApi::Refuse(const HttpSlot& slot, int status, std::string_view detail) {
  turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
    http::WriteProblem(out, shape, {.status = status, .detail = detail});
  });
}

void HttpApi::Handle(const http::Request& request, HttpSlot slot) noexcept {
  turn_.Run(slot, [&] { Dispatch(request, slot); });
}

void HttpApi::Dispatch(const http::Request& request, const HttpSlot& slot) {
  std::string_view rest;
  const Route* const route = Find(request.path, rest);
  if (route == nullptr) return Refuse(slot, 404, "no such path; see docs/protocol.md");
  if (!ShowsToken(*route, request)) {
    turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
      http::ResponseWriter writer(out, shape, 401);
      writer.Header("WWW-Authenticate", "Bearer");
      http::AppendProblem(writer.BeginBody(http::kProblemType),
                          {.status = 401, .detail = "the token is missing or wrong"});
      writer.EndBody();
    });
    return;
  }
  const bool reads = request.method == http::Method::kGet || request.method == http::Method::kHead;
  const bool fits = route->methods == Route::Methods::kAny ||
                    (route->methods == Route::Methods::kGet ? reads : request.method == http::Method::kPost);
  if (!fits) {
    turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
      http::WriteMethodNotAllowed(out, shape, route->methods == Route::Methods::kGet ? "GET, HEAD" : "POST");
    });
    return;
  }
  route->verb(*this).Handle(request, rest, slot);
}

}  // namespace penstock::api
