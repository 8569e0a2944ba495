#include "api/http_check.h"

#include "api/decision_json.h"

namespace penstock::api {

void HttpCheck::Handle(const http::Request& request, std::string_view, const HttpSlot& slot) {
  if (Result<void> parsed = body_.Parse(request.body); !parsed) return AnswerError(slot, parsed.error());
  if (body_.is_array()) return HandleArray(slot);
  const Result<service::Request> check = body_.ReadCheck(0);
  if (!check) return AnswerError(slot, check.error());
  Submit(*check, {slot, {}, nullptr, 0});
}

void HttpCheck::HandleArray(const HttpSlot& slot) {
  const size_t size = body_.size();
  const auto array = std::make_shared<Array>();
  array->slot = slot;
  array->items.resize(size);
  array->missing = size;
  for (size_t i = 0; i < size; ++i) {
    const Result<service::Request> check = body_.ReadCheck(i);
    if (check) {
      Submit(*check, {slot, {}, array, i});
    } else {
      AppendErrorItem(array->items[i], check.error());
      FinishItem(*array);
    }
  }
}

void HttpCheck::Submit(const service::Request& request, Pending pending) {
  const uint64_t token = pending_.Add(std::move(pending));
  turn_.Submit(request, *this, token);
  pending_.At(token).begin = turn_.begin();
}

void HttpCheck::Decided(uint64_t token, const Result<const Decision*>& decision) noexcept {
  const Pending pending = pending_.Take(token);
  turn_.Decided(pending.begin);
  if (pending.array != nullptr) {
    std::string& item = pending.array->items[pending.index];
    if (decision) {
      AppendDecisionItem(item, **decision);
    } else {
      AppendErrorItem(item, decision.error());
    }
    FinishItem(*pending.array);
  } else if (decision) {
    turn_.Answer(pending.slot, [&](std::string& out, const http::ReplyShape& shape) {
      WriteDecision(out, shape, **decision);
    });
  } else {
    AnswerError(pending.slot, decision.error());
  }
}

void HttpCheck::FinishItem(Array& array) {
  if (--array.missing > 0) return;
  std::string json = "[";
  for (size_t i = 0; i < array.items.size(); ++i) {
    if (i > 0) json += ',';
    json += array.items[i];
  }
  json += ']';
  turn_.Answer(array.slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteJson(out, shape, 200, json); });
}

}  // namespace penstock::api
