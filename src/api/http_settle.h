// POST /v1/settle: what a request really used.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/check_body.h"
#include "api/http_verb.h"
#include "api/pending.h"

namespace penstock::api {

class HttpSettle final : public HttpVerb, private service::Receiver {
 public:
  HttpSettle(Turn& turn, CheckBody& body) : HttpVerb(turn), body_(body) {}
  ~HttpSettle() override { turn_.decider().Detach(*this); }
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override;

  CheckBody& body_;
  PendingPool<HttpSlot> pending_;
};

}  // namespace penstock::api
