// POST /v1/release and /v1/renew: a permit by its id, or an array of them.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/check_body.h"
#include "api/http_verb.h"

namespace penstock::api {

class HttpPermits final : public HttpVerb {
 public:
  using Verb = CheckBody::PermitVerb;
  HttpPermits(HttpTurn& turn, CheckBody& body, Verb verb) : HttpVerb(turn), body_(body), verb_(verb) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  void Call(const PermitWords& words, HttpAsk ask);
  // ask.note: the place in an array.
  void PermitAnswered(const HttpAsk& ask, const service::PermitAnswer& answer) noexcept override;

  CheckBody& body_;
  const Verb verb_;
};

}  // namespace penstock::api
