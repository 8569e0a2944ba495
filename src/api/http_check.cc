#include "api/http_check.h"

#include "api/decision_json.h"

namespace penstock::api {

void HttpCheck::Handle(const http::Request& request, std::string_view, const HttpSlot& slot) {
  if (Result<void> parsed = body_.Parse(request.body); !parsed) return AnswerError(slot, parsed.error());
  if (body_.is_array()) return HandleArray(slot);
  const Result<service::Request> check = body_.ReadCheck(0);
  if (!check) return AnswerError(slot, check.error());
  turn_.Submit(*check, Timed(slot));
}

HttpAsk HttpCheck::Timed(const HttpSlot& slot) {
  HttpAsk ask = For(slot);
  ask.timed = true;
  return ask;
}

void HttpCheck::HandleArray(const HttpSlot& slot) {
  const std::shared_ptr<Together> array = NewArray(body_.size());
  for (size_t i = 0; i < body_.size(); ++i) {
    const Result<service::Request> check = body_.ReadCheck(i);
    if (check) {
      HttpAsk ask = Timed(slot);
      ask.together = array;
      ask.note = static_cast<int64_t>(i);
      turn_.Submit(*check, std::move(ask));
    } else {
      AppendErrorItem(array->items[i], check.error());
      FinishItem(slot, *array);
    }
  }
}

void HttpCheck::Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept {
  if (ask.together != nullptr) return DecidedItem(ask, decision);
  if (!decision) return AnswerError(ask.slot, decision.error());
  turn_.AnswerCheck(ask, **decision, [&](std::string& out, const http::ReplyShape& shape) {
    WriteDecision(out, shape, **decision);
  });
}

void HttpCheck::DecidedItem(const HttpAsk& ask, const Result<const Decision*>& decision) {
  Together& array = *ask.together;
  std::string& item = array.items[static_cast<size_t>(ask.note)];
  if (!decision) {
    AppendErrorItem(item, decision.error());
  } else {
    AppendDecisionItem(item, **decision);
    if ((*decision)->permit && !HttpTurn::MayAskAgain(ask, **decision))
      array.permits.emplace_back((*decision)->permit->id.view());
  }
  FinishItem(ask.slot, array);
}

}  // namespace penstock::api
