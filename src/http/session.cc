#include "http/session.h"

#include "http/problem.h"

namespace penstock::http {

void Session::Open() {
  Detach();
  stopped_ = false;
}

void Session::Detach() {
  buffer_ = {};
  parser_.Reset();
  replies_.Reset();
  std::string().swap(replies_.output());
  written_ = 0;
  std::vector<SlotShape>().swap(shapes_);
  continue_due_ = false;
  peer_finished_ = false;
  paused_ = false;
  stopped_ = true;
}

ReplyTicket Session::OpenSlot(bool head_only, bool http10) {
  const ReplyTicket ticket = replies_.Open();
  slots_opened_to_ = ticket.slot + 1;
  if (replies_.open() > shapes_.size()) {
    const std::vector<SlotShape> old = shapes_;
    shapes_.resize(old.empty() ? 4 : 2 * old.size());
    for (uint64_t back = 1; back <= old.size(); ++back) {
      const uint64_t slot = ticket.slot - back;
      shapes_[slot & (shapes_.size() - 1)] = old[slot & (old.size() - 1)];
    }
  }
  shapes_[ticket.slot & (shapes_.size() - 1)] = {head_only, http10};
  return ticket;
}

ReplyShape Session::ShapeOf(uint64_t slot) const {
  const SlotShape& shape = shapes_[slot & (shapes_.size() - 1)];
  const bool last = stopped_ && slot + 1 == slots_opened_to_;
  return {.head_only = shape.head_only,
          .keep_alive = !last,
          .http10 = shape.http10,
          .date = options_.date == nullptr ? std::string_view() : *options_.date};
}

Action Session::Next() {
  if (stopped_) return Close{};
  paused_ = replies_.Full() || pending_bytes() >= options_.max_pending_bytes;
  if (paused_) return Paused{};

  const std::span<char> unread = buffer_.unread();
  const RequestParser::Step step = parser_.Parse({unread.data(), unread.size()});
  buffer_.Consume(step.consumed);
  switch (step.status) {
    case RequestParser::Status::kNeedMore:
      break;
    case RequestParser::Status::kError:
      Refuse(parser_.error().status, parser_.error().sentence);
      return Close{};
    case RequestParser::Status::kRequest: {
      continue_due_ = false;
      const Request& request = parser_.request();
      const ReplyTicket ticket = OpenSlot(request.method == Method::kHead, request.http10);
      if (!request.keep_alive) stopped_ = true;
      return Incoming{&request, ticket};
    }
  }
  if (peer_finished_) {
    stopped_ = true;
    return Close{};
  }
  if (parser_.TakeContinue()) {
    continue_due_ = true;
    SendContinue();
  }
  return NeedBytes{};
}

void Session::SendContinue() {
  if (!replies_.Empty()) return;
  continue_due_ = false;
  replies_.output() += "HTTP/1.1 100 Continue\r\n\r\n";
}

void Session::Refuse(int status, std::string_view sentence) {
  if (stopped_) return;
  stopped_ = true;
  continue_due_ = false;
  // The slot may be one above the bound: it is the last.
  const ReplyTicket ticket = OpenSlot(false, false);
  Answer(ticket, [&](std::string& out, const ReplyShape& shape) {
    WriteProblem(out, shape, {.status = status, .detail = sentence});
  });
}

void Session::Written(size_t count) {
  std::string& output = replies_.output();
  written_ += count;
  if (written_ == output.size()) {
    output.clear();
    if (output.capacity() > kKeptOutputBytes) output.shrink_to_fit();
    written_ = 0;
  } else if (written_ >= kKeptOutputBytes && written_ >= output.size() / 2) {
    // A peer that never lets the output run empty must not make it grow for ever.
    output.erase(0, written_);
    written_ = 0;
  }
}

Phase Session::phase() const {
  if (stopped_) return Phase::kClosing;
  if (paused_) return Phase::kAnswering;
  if (parser_.phase() == RequestParser::Phase::kHead) return Phase::kHead;
  if (parser_.phase() == RequestParser::Phase::kBody) return Phase::kBody;
  return replies_.Empty() ? Phase::kIdle : Phase::kAnswering;
}

}  // namespace penstock::http
