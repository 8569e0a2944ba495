#include "server/http_driver.h"

#include <variant>

namespace penstock::server {

void HttpDriver::Open(net::Wire& wire) noexcept {
  wire_ = &wire;
  session_.Open();
  requests_ = 0;
  open_ = reading_ = true;
  paused_ = draining_ = false;
}

void HttpDriver::Close() noexcept {
  open_ = false;
  handler_.Closed(*this);
  session_.Detach();
}

void HttpDriver::Received(size_t count) noexcept {
  session_.Received(count);
  HandleAll();
}

void HttpDriver::ReceivedEnd() noexcept {
  session_.PeerFinished();
  HandleAll();
  GiveUpWaiting();
}

void HttpDriver::GiveUpWaiting() {
  if (!handler_.Waits(*this)) return;
  handler_.Closed(*this);
  session_.Detach();
  reading_ = paused_ = false;
}

void HttpDriver::HandleAll() {
  for (;;) {
    const http::Action action = session_.Next();
    if (const auto* const incoming = std::get_if<http::Incoming>(&action)) {
      ++requests_;
      if (draining_) session_.Drain();  // before it is answered, so that the answer says so
      handler_.Handle(*incoming->request, {&session_, this, incoming->ticket});
      continue;
    }
    reading_ = std::holds_alternative<http::NeedBytes>(action);
    paused_ = std::holds_alternative<http::Paused>(action);
    break;
  }
  handler_.Flush();
}

void HttpDriver::TimedOut(net::Stage stage) noexcept {
  if (stage == net::Stage::kIdle) {
    session_.Drain();
  } else {
    session_.Refuse(408, stage == net::Stage::kHead ? "the head of the request took too long"
                                                    : "the body of the request took too long");
  }
  reading_ = false;
}

void HttpDriver::Drain() noexcept {
  const http::Phase phase = session_.phase();
  draining_ = phase == http::Phase::kHead || phase == http::Phase::kBody;
  if (draining_) return;
  session_.Drain();
  reading_ = paused_ = false;
}

void HttpDriver::ReplyReady() noexcept {
  if (open_) wire_->OutputReady();
}

net::Wants HttpDriver::wants() const noexcept {
  net::Wants wants;
  wants.open = session_.in_flight() > 0;
  wants.read = reading_;
  // After a request that said close nothing is read any more; but who waits in a queue must be missed when he goes.
  wants.end = !reading_ && !paused_ && handler_.Waits(*this);
  wants.resume = paused_ && session_.in_flight() < options_.max_in_flight &&
                 session_.pending_bytes() < options_.max_pending_bytes;
  wants.close = session_.Finished();
  wants.progress = requests_;
  switch (session_.phase()) {
    case http::Phase::kIdle:
      wants.stage = net::Stage::kIdle;
      break;
    case http::Phase::kHead:
      wants.stage = net::Stage::kHead;
      break;
    case http::Phase::kBody:
      wants.stage = net::Stage::kBody;
      break;
    case http::Phase::kAnswering:
    case http::Phase::kClosing:
      wants.stage = net::Stage::kReply;
      break;
  }
  if (wants.open) wants.stage = net::Stage::kReply;
  return wants;
}

}  // namespace penstock::server
