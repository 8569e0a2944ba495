// One verb of the HTTP interface, as the router (http_api.h) sees it.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/handler.h"
#include "api/http_answer.h"
#include "api/turn.h"
#include "http/message.h"
#include "http/session.h"

namespace penstock::api {

class HttpVerb : public Asker<HttpSlot> {
 public:
  explicit HttpVerb(HttpTurn& turn) : turn_(turn) {}
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

  // An ask of this verb's.
  HttpAsk For(const HttpSlot& slot) {
    HttpAsk ask;
    ask.slot = slot;
    ask.asker = this;
    return ask;
  }

  // An array's answer leaves when its last item is known.
  static std::shared_ptr<Together> NewArray(size_t size) {
    auto array = std::make_shared<Together>();
    array->items.resize(size);
    array->missing = size;
    return array;
  }
  void FinishItem(const HttpSlot& slot, Together& array) {
    if (--array.missing > 0) return;
    turn_.AnswerChecks(slot, array, [&](std::string& out, const http::ReplyShape& shape) {
      WriteArray(out, shape, array.items);
    });
  }

  HttpTurn& turn_;
};

}  // namespace penstock::api
