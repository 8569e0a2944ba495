#include "api/resp_api.h"

#include <string>

#include "api/resp_permits.h"
#include "api/resp_throttle.h"
#include "service/holder_desk.h"

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

RespAsk RespApi::For(const resp::Command& command, const RespSlot& slot) {
  RespAsk ask;
  ask.slot = slot;
  ask.asker = this;
  ask.what = static_cast<uint32_t>(command.id);
  return ask;
}

void RespApi::Handle(const resp::Command& command, RespSlot slot) noexcept {
  turn_.Run(slot, [&] {
    switch (command.id) {
      case resp::CommandId::kRelease:
        return Release(command, slot);
      case resp::CommandId::kRenew:
        return Renew(command, slot);
      case resp::CommandId::kHolders:
        return List(command, slot);
      default:
        return Read(command, slot);
    }
  });
}

void RespApi::Read(const resp::Command& command, const RespSlot& slot) {
  request_ = {};
  Result<void> read;
  if (command.id == resp::CommandId::kThrottle) {
    read = ReadThrottle(command.args, request_);
  } else if (command.id == resp::CommandId::kAcquire) {
    read = ReadAcquire(command.args, request_);
  } else {
    read = ReadRespCheck(command.args, scratch_, request_);
  }
  if (!read) return AnswerError(slot, read.error());
  RespAsk ask = For(command, slot);
  ask.timed = true;
  if (request_.ad_hoc) ask.note = request_.ad_hoc->burst.value_or(0);
  turn_.Submit(request_, std::move(ask));
}

void RespApi::Release(const resp::Command& command, const RespSlot& slot) {
  const std::span<const std::string_view> ids = command.args.subspan(1);
  const auto together = std::make_shared<Together>();
  together->items.resize(ids.size());
  together->missing = ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    RespAsk ask = For(command, slot);
    ask.together = together;
    ask.note = static_cast<int64_t>(i);
    turn_.Release(ids[i], std::move(ask));
  }
}

void RespApi::Renew(const resp::Command& command, const RespSlot& slot) {
  const Result<std::chrono::milliseconds> lease = ReadRenewal(command.args);
  if (!lease) return AnswerError(slot, lease.error());
  turn_.Renew(command.args[1], *lease, For(command, slot));
}

void RespApi::List(const resp::Command& command, const RespSlot& slot) {
  service::Request bucket;
  bucket.ad_hoc = service::kAnySemaphore;
  bucket.ad_hoc_key = command.args[1];
  turn_.List(bucket, {}, For(command, slot));
}

void RespApi::Decided(const RespAsk& ask, const Result<const Decision*>& decision) noexcept {
  if (!decision) return AnswerError(ask.slot, decision.error());
  turn_.AnswerCheck(ask, **decision, [&](resp::Writer& writer) {
    switch (static_cast<resp::CommandId>(ask.what)) {
      case resp::CommandId::kThrottle:
        return WriteThrottle(writer, **decision, ask.note);
      case resp::CommandId::kAcquire:
        return WriteAcquired(writer, **decision);
      default:
        return WriteRespCheck(writer, **decision);
    }
  });
}

void RespApi::PermitAnswered(const RespAsk& ask, const service::PermitAnswer& answer) noexcept {
  if (ask.together == nullptr) {
    turn_.Answer(ask.slot, [&](resp::Writer& writer) { WriteRenewed(writer, answer); });
    return;
  }
  Together& together = *ask.together;
  together.items[static_cast<size_t>(ask.note)] = ToString(answer.fate);
  if (--together.missing > 0) return;
  turn_.Answer(ask.slot, [&](resp::Writer& writer) {
    writer.Array(together.items.size());
    for (const std::string& fate : together.items) writer.Bulk(fate);
  });
}

void RespApi::HoldersListed(const RespAsk& ask, const Result<const service::Holders*>& holders) noexcept {
  if (!holders) return AnswerError(ask.slot, holders.error());
  turn_.Answer(ask.slot, [&](resp::Writer& writer) {
    if ((*holders)->unavailable != Reason::kNone)
      return writer.Error(UnavailableText((*holders)->unavailable));
    WriteHolders(writer, **holders);
  });
}

}  // namespace penstock::api
