#include "server/resp_driver.h"

#include <string>
#include <variant>

namespace penstock::server {

void RespDriver::Open(net::Wire& wire) noexcept {
  wire_ = &wire;
  std::string text;
  if (wire.address() != nullptr) wire.address()->AppendText(text);
  session_.Open(last_id_.fetch_add(1, std::memory_order_relaxed) + 1, text);
  open_ = reading_ = true;
  paused_ = mid_command_ = draining_ = false;
}

void RespDriver::Close() noexcept {
  open_ = false;
  handler_.Closed(*this);
  session_.Detach();
}

void RespDriver::Received(size_t count) noexcept {
  session_.Received(count);
  HandleAll();
}

// A command that is half here will never be whole; the others are answered.
void RespDriver::ReceivedEnd() noexcept {
  reading_ = false;
  GiveUpWaiting();
}

void RespDriver::GiveUpWaiting() {
  if (!handler_.Waits(*this)) return;
  handler_.Closed(*this);
  session_.Detach();
  paused_ = false;
}

void RespDriver::HandleAll() {
  for (;;) {
    const resp::Action action = session_.Next();
    if (const auto* const command = std::get_if<resp::Command>(&action)) {
      handler_.Handle(*command, {&session_, this, command->ticket});
      continue;
    }
    reading_ = std::holds_alternative<resp::NeedBytes>(action);
    paused_ = std::holds_alternative<resp::Paused>(action);
    break;
  }
  mid_command_ = session_.mid_command();
  handler_.Flush();
  if (draining_ && !paused_ && !mid_command_) Drain();
}

// RESP has no word for it.
void RespDriver::TimedOut(net::Stage) noexcept {
  session_.Drain();
  reading_ = paused_ = false;
}

void RespDriver::Drain() noexcept {
  draining_ = mid_command_;
  if (draining_) return;
  session_.Drain();
  reading_ = paused_ = false;
}

void RespDriver::ReplyReady() noexcept {
  if (open_) wire_->OutputReady();
}

net::Wants RespDriver::wants() const noexcept {
  net::Wants wants;
  wants.open = session_.in_flight() > 0;
  wants.read = reading_;
  wants.resume = paused_ && !session_.Blocked();
  wants.close = session_.Finished();
  wants.progress = session_.commands();
  wants.stage = wants.open ? net::Stage::kReply : mid_command_ ? net::Stage::kHead : net::Stage::kIdle;
  return wants;
}

}  // namespace penstock::server
