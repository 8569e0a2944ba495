// POST /v1/settle: what a request really used.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/check_body.h"
#include "api/http_verb.h"

namespace penstock::api {

class HttpSettle final : public HttpVerb {
 public:
  HttpSettle(HttpTurn& turn, CheckBody& body) : HttpVerb(turn), body_(body) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  void Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept override;

  CheckBody& body_;
};

}  // namespace penstock::api
