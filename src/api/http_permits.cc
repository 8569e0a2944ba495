#include "api/http_permits.h"

#include "api/milliseconds.h"
#include "base/bytes.h"

namespace penstock::api {
namespace {

// The permit's fate is an answer and no mistake, whatever it is, as long as the engine could say.
int StatusOf(const service::PermitAnswer& answer) {
  return answer.fate == core::PermitFate::kUnavailable ? 503 : 200;
}

void AppendMembers(std::string& out, const service::PermitAnswer& answer) {
  out.append(R"("result":")").append(ToString(answer.fate)).append("\"");
  if (answer.fate == core::PermitFate::kRenewed) {
    out += R"(,"expires_in_ms":)";
    AppendInt(out, ToFloorMs(answer.expires_in));
  }
  if (answer.reason != Reason::kNone)
    out.append(R"(,"reason":")").append(ToString(answer.reason)).append("\"");
  out += '}';
}

}  // namespace

void HttpPermits::Handle(const http::Request& request, std::string_view, const HttpSlot& slot) {
  if (Result<void> parsed = body_.Parse(request.body); !parsed) return AnswerError(slot, parsed.error());
  if (!body_.is_array()) {
    const Result<PermitWords> words = body_.ReadPermit(0, verb_);
    if (!words) return AnswerError(slot, words.error());
    return Call(*words, For(slot));
  }
  const std::shared_ptr<Together> array = NewArray(body_.size());
  for (size_t i = 0; i < body_.size(); ++i) {
    const Result<PermitWords> words = body_.ReadPermit(i, verb_);
    if (words) {
      HttpAsk ask = For(slot);
      ask.together = array;
      ask.note = static_cast<int64_t>(i);
      Call(*words, std::move(ask));
    } else {
      AppendErrorItem(array->items[i], words.error());
      FinishItem(slot, *array);
    }
  }
}

void HttpPermits::Call(const PermitWords& words, HttpAsk ask) {
  if (verb_ == Verb::kRenew) {
    turn_.Renew(words.id, words.lease, std::move(ask));
  } else {
    turn_.Release(words.id, std::move(ask));
  }
}

void HttpPermits::PermitAnswered(const HttpAsk& ask, const service::PermitAnswer& answer) noexcept {
  if (ask.together != nullptr) {
    std::string& item = ask.together->items[static_cast<size_t>(ask.note)];
    item += R"({"status":)";
    AppendInt(item, StatusOf(answer));
    item += ',';
    AppendMembers(item, answer);
    return FinishItem(ask.slot, *ask.together);
  }
  std::string json = "{";
  AppendMembers(json, answer);
  turn_.Answer(ask.slot, [&](std::string& out, const http::ReplyShape& shape) {
    WriteJson(out, shape, StatusOf(answer), json);
  });
}

}  // namespace penstock::api
