#include "api/http_settle.h"

namespace penstock::api {

void HttpSettle::Handle(const http::Request& request, std::string_view, const HttpSlot& slot) {
  if (Result<void> parsed = body_.Parse(request.body); !parsed) return AnswerError(slot, parsed.error());
  const Result<service::Request> settle = body_.ReadSettle();
  if (!settle) return AnswerError(slot, settle.error());
  turn_.Submit(*settle, For(slot));
}

void HttpSettle::Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept {
  if (!decision) return AnswerError(ask.slot, decision.error());
  turn_.Answer(ask.slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteDone(out, shape, **decision); });
}

}  // namespace penstock::api
