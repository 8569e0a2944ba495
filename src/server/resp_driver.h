// Puts a RESP session on a connection: what net asks of a protocol, answered by resp::Session and the RESP handler.
//
// Thread contract: one event loop, but for the counter of connections, which all loops share. Options, handler and
// counter outlive it.
#pragma once

#include <atomic>
#include <cstdint>

#include "api/handler.h"
#include "net/protocol.h"
#include "resp/session.h"

namespace penstock::server {

class RespDriver final : public net::Protocol, private api::Peer {
 public:
  // `last_id` counts connections: CLIENT ID.
  RespDriver(const resp::SessionOptions& options, api::RespHandler& handler, std::atomic<uint64_t>& last_id)
      : handler_(handler), last_id_(last_id), session_(options) {}

  void Open(net::Wire& wire) noexcept override;
  std::span<char> ReceiveSpace() noexcept override { return session_.ReceiveSpace(); }
  void Received(size_t count) noexcept override;
  void ReceivedEnd() noexcept override;
  void TimedOut(net::Stage stage) noexcept override;
  void Drain() noexcept override;
  void Close() noexcept override;
  net::Wants wants() const noexcept override;
  std::string_view Output() const noexcept override { return session_.Output(); }
  void Written(size_t count) noexcept override { session_.Written(count); }

 private:
  void ReplyReady() noexcept override;
  const IpAddress* address() const override { return open_ ? wire_->address() : nullptr; }
  // Hands out every command that is there, then has them decided together.
  void HandleAll();
  // Who closes a connection sends an end like one who only has nothing more to ask. Where a request may wait in a queue
  // it is taken for the former: a place there, and a permit, are not for somebody who has gone.
  void GiveUpWaiting();

  // Constant.
  api::RespHandler& handler_;
  std::atomic<uint64_t>& last_id_;

  resp::Session session_;
  net::Wire* wire_ = nullptr;
  bool open_ = false;
  bool reading_ = false;  // the session takes more
  bool paused_ = false;   // it does not for now, because too much is owed or unread
  bool mid_command_ = false;
  bool draining_ = false;  // the command that is half here is the last
};

}  // namespace penstock::server
