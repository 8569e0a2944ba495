// POST /v1/check: one check or an array of them.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/check_body.h"
#include "api/http_verb.h"

namespace penstock::api {

class HttpCheck final : public HttpVerb {
 public:
  HttpCheck(HttpTurn& turn, CheckBody& body) : HttpVerb(turn), body_(body) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  void HandleArray(const HttpSlot& slot);
  HttpAsk Timed(const HttpSlot& slot);
  // ask.note: the place in an array.
  void Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept override;
  void DecidedItem(const HttpAsk& ask, const Result<const Decision*>& decision);

  CheckBody& body_;
};

}  // namespace penstock::api
