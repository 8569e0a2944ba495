// One verb of the HTTP interface, as the router (http_api.h) sees it.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/handler.h"
#include "api/http_answer.h"
#include "api/turn.h"
#include "http/message.h"
#include "http/session.h"

namespace penstock::api {

class HttpVerb {
 public:
  explicit HttpVerb(Turn& turn) : turn_(turn) {}
  virtual ~HttpVerb() = default;
  HttpVerb(const HttpVerb&) = delete;
  HttpVerb& operator=(const HttpVerb&) = delete;

  // `rest` is what follows the verb's own part of the path, without a leading slash, not decoded.
  virtual void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) = 0;

 protected:
  void AnswerError(const HttpSlot& slot, const Error& error) {
    turn_.Answer(slot,
                 [&](std::string& out, const http::ReplyShape& shape) { WriteError(out, shape, error); });
  }

  Turn& turn_;
};

}  // namespace penstock::api
