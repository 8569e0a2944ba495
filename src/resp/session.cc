#include "resp/session.h"

#include <algorithm>

#include "base/ascii.h"

namespace penstock::resp {
namespace {

// A browser that was talked into posting to this port: its request line and headers would be commands.
bool IsHttp(std::string_view name) {
  return EqualsIgnoringCase(name, "post") || EqualsIgnoringCase(name, "host:");
}

}  // namespace

void Session::Open(uint64_t id, std::string_view address) {
  Detach();
  state_.id = id;
  state_.address = address;
  state_.authenticated = options_.token.empty();
  closing_ = false;
}

void Session::Detach() {
  state_ = {};
  buffer_ = {};
  parser_.Reset();
  replies_.Reset();
  std::string().swap(replies_.output());
  written_ = 0;
  switches_.clear();
  closing_ = true;
}

Action Session::Next() {
  for (;;) {  // a turn consumes a command
    if (closing_) return Close{};
    if (Blocked()) return Paused{};
    const Limits& limits = state_.authenticated ? options_.limits : options_.limits_before_auth;
    const ParseResult result = parser_.Parse(buffer_.unread(), limits);
    buffer_.Consume(result.consumed);
    if (result.status == ParseStatus::kNeedMore) return NeedBytes{};
    if (result.status == ParseStatus::kError) {
      RefuseAndClose(parser_.error());
      continue;
    }
    ++commands_;
    const auto args = parser_.args();
    const CommandSpec* spec = FindCommand(args[0]);
    if (spec != nullptr && spec->decides() && state_.authenticated && args.size() >= spec->least_args &&
        args.size() <= spec->most_args) [[likely]] {
      return Command{spec->id, replies_.Open(), args};
    }
    AnswerHere(spec, args);
  }
}

void Session::Written(size_t count) {
  std::string& output = replies_.output();
  written_ += count;
  if (written_ == output.size()) {
    written_ = 0;
    output.clear();
    if (output.capacity() > kKeptOutputBytes) std::string().swap(output);
  } else if (written_ >= kKeptOutputBytes && written_ >= output.size() / 2) {
    // A peer that never lets the output run empty must not make it grow for ever.
    output.erase(0, written_);
    written_ = 0;
  }
}

// There are two versions, so every switch after the slot takes one back to the other.
Protocol Session::ProtocolOf(uint64_t slot) {
  if (replies_.Answered(switches_.back())) {
    switches_.clear();
    return state_.protocol;
  }
  const auto later = switches_.end() - std::upper_bound(switches_.begin(), switches_.end(), slot);
  if (later % 2 == 0) return state_.protocol;
  return state_.protocol == Protocol::kResp2 ? Protocol::kResp3 : Protocol::kResp2;
}

void Session::AnswerHere(const CommandSpec* spec, std::span<const std::string_view> args) {
  if (spec == nullptr && IsHttp(args[0])) {
    closing_ = true;  // without a word
    return;
  }
  const Protocol before = state_.protocol;
  const ReplyTicket ticket = replies_.Open();
  std::string& out = *replies_.Begin(ticket);
  Writer writer(out, state_.protocol);
  if (!state_.authenticated && (spec == nullptr || !spec->before_auth())) {
    writer.Error("NOAUTH Authentication required.");
  } else if (spec == nullptr) {
    writer.Error(UnknownCommand(args));
  } else if (args.size() < spec->least_args || args.size() > spec->most_args) {
    writer.Error(WrongArgumentCount(spec->name));
  } else if (RunConnectionCommand(*spec, args, options_, state_, out) == AfterReply::kClose) {
    closing_ = true;
  }
  replies_.End(ticket);
  if (state_.protocol == before || replies_.Empty()) return;
  // Switches that no open slot stands before are over; so there are never more than slots may be open.
  const auto over = std::partition_point(switches_.begin(), switches_.end(),
                                         [this](uint64_t slot) { return replies_.Answered(slot); });
  switches_.erase(switches_.begin(), over);
  switches_.push_back(ticket.slot);
}

void Session::RefuseAndClose(std::string_view error) {
  const ReplyTicket ticket = replies_.Open();
  std::string message = "ERR ";
  message += error;
  Writer(*replies_.Begin(ticket), state_.protocol).Error(message);
  replies_.End(ticket);
  closing_ = true;
}

}  // namespace penstock::resp
