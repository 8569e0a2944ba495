#include "api/http_settle.h"

namespace penstock::api {

void HttpSettle::Handle(const http::Request& request, std::string_view, const HttpSlot& slot) {
  if (Result<void> parsed = body_.Parse(request.body); !parsed) return AnswerError(slot, parsed.error());
  const Result<service::Request> settle = body_.ReadSettle();
  if (!settle) return AnswerError(slot, settle.error());
  turn_.Submit(*settle, *this, pending_.Add(slot));
}

void HttpSettle::Decided(uint64_t token, const Result<const Decision*>& decision) noexcept {
  const HttpSlot slot = pending_.Take(token);
  if (!decision) return AnswerError(slot, decision.error());
  turn_.Answer(slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteDone(out, shape, **decision); });
}

}  // namespace penstock::api
