// /auth/{domain}: forward-auth for nginx, Traefik, Caddy and Envoy's ext_authz over HTTP. The verdict is the status;
// the request that is asked about is described by headers, which are believed only from trusted proxies.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include <string>
#include <vector>

#include "api/http_verb.h"
#include "base/address.h"

namespace penstock::api {

class HttpAuth final : public HttpVerb {
 public:
  HttpAuth(HttpTurn& turn, const std::vector<Cidr>& trusted_proxies)
      : HttpVerb(turn), trusted_proxies_(trusted_proxies) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  struct Options;

  Result<void> ReadQuery(const http::Request& request, Options& options);
  void Describe(const http::Request& request, std::string_view rest, const HttpSlot& slot);
  // ask.note: the status of a denial; 0: 429, or 503 when the engine could not be asked.
  void Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept override;

  // Constant.
  const std::vector<Cidr>& trusted_proxies_;

  // What the attributes of the request at hand point into; reused.
  std::vector<Attribute> attributes_;
  std::string domain_;
  std::string path_;
  std::string ip_;
  std::vector<std::pair<std::string, std::string>> header_names_;  // header and attribute
};

}  // namespace penstock::api
