// Puts an HTTP session on a connection: what net asks of a protocol, answered by http::Session and the HTTP handler.
//
// Thread contract: one event loop. Options and handler outlive it.
#pragma once

#include "api/handler.h"
#include "http/session.h"
#include "net/protocol.h"

namespace penstock::server {

class HttpDriver final : public net::Protocol, private api::Peer {
 public:
  HttpDriver(const http::SessionOptions& options, api::HttpHandler& handler)
      : options_(options), handler_(handler), session_(options) {}

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
  // Hands out every request that is there, then has them decided together.
  void HandleAll();
  // Who closes a connection sends an end like one who only has nothing more to ask. Where a request may wait in a queue
  // it is taken for the former: a place there, and a permit, are not for somebody who has gone.
  void GiveUpWaiting();

  // Constant.
  const http::SessionOptions& options_;
  api::HttpHandler& handler_;

  http::Session session_;
  net::Wire* wire_ = nullptr;
  uint64_t requests_ = 0;
  bool open_ = false;
  bool reading_ = false;   // the session takes more
  bool paused_ = false;    // it does not for now, because too much is owed or unread
  bool draining_ = false;  // the request that is half here is the last
};

}  // namespace penstock::server
