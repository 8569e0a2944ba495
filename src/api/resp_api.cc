#include "api/resp_api.h"

#include <string>

#include "api/resp_throttle.h"

namespace penstock::api {
namespace {

std::string ErrorText(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kNotFound:
      return "NOTFOUND " + error.message;
    case ErrorKind::kConflict:
      return "CONFLICT " + error.message;
    default:
      return "ERR " + error.message;
  }
}

}  // namespace

void RespApi::AnswerError(const RespSlot& slot, const Error& error) {
  turn_.Answer(slot, [&](resp::Writer& writer) { writer.Error(ErrorText(error)); });
}

void RespApi::Handle(const resp::Command& command, RespSlot slot) noexcept {
  turn_.Run([&] { Read(command, slot); });
}

void RespApi::Read(const resp::Command& command, const RespSlot& slot) {
  request_ = {};
  Result<void> read;
  switch (command.id) {
    case resp::CommandId::kThrottle:
      read = ReadThrottle(command.args, request_);
      break;
    case resp::CommandId::kCheck:
      read = ReadRespCheck(command.args, scratch_, request_);
      break;
    default:
      read = Invalid("the memory engine cannot hold permits yet");
  }
  if (!read) {
    AnswerError(slot, read.error());
    return;
  }
  const int64_t capacity = request_.ad_hoc ? request_.ad_hoc->burst.value_or(0) : 0;
  const uint64_t token = pending_.Add({slot, command.id, capacity, {}});
  turn_.Submit(request_, *this, token);
  pending_.At(token).begin = turn_.begin();
}

void RespApi::Decided(uint64_t token, const Result<const Decision*>& decision) noexcept {
  const Pending pending = pending_.Take(token);
  turn_.Decided(pending.begin);
  if (!decision) {
    AnswerError(pending.slot, decision.error());
    return;
  }
  turn_.Answer(pending.slot, [&](resp::Writer& writer) {
    if (pending.command == resp::CommandId::kThrottle) {
      WriteThrottle(writer, **decision, pending.capacity);
    } else {
      WriteRespCheck(writer, **decision);
    }
  });
}

}  // namespace penstock::api
