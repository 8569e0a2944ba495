// The HTTP interface: routes a request to its verb, once it has shown the token. One an event loop.
//
// Thread contract: the loop's thread. Decider, clock, options and server outlive it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/check_body.h"
#include "api/handler.h"
#include "api/http_auth.h"
#include "api/http_check.h"
#include "api/http_holders.h"
#include "api/http_limits.h"
#include "api/http_permits.h"
#include "api/http_settle.h"
#include "api/http_status.h"
#include "api/server_view.h"
#include "api/turn.h"

namespace penstock::api {

struct HttpOptions {
  std::string token;                  // bearer; empty = none is asked for
  std::vector<Cidr> trusted_proxies;  // whose X-Forwarded-* is believed
};

class HttpApi final : public HttpHandler {
 public:
  // `changes` null: limits cannot be changed here. It outlives the interface like the others.
  HttpApi(service::Decider& decider, const Clock& clock, const HttpOptions& options, const ServerView& server,
          LimitChanges* changes = nullptr);

  void Handle(const http::Request& request, HttpSlot slot) noexcept override;
  void Flush() noexcept override { turn_.Flush(); }
  void Closed(Peer& peer) noexcept override { turn_.Closed(peer); }
  bool Waits(const Peer& peer) const noexcept override { return HttpTurn::Waits(peer); }
  const LatencyHistogram& latency() const { return turn_.latency(); }

 private:
  struct Route;
  void Dispatch(const http::Request& request, const HttpSlot& slot);
  // Null when no route has this path; `rest` is what follows its prefix.
  const Route* Find(std::string_view path, std::string_view& rest) const;
  bool ShowsToken(const Route& route, const http::Request& request) const;
  void Refuse(const HttpSlot& slot, int status, std::string_view detail);

  // Constant.
  const HttpOptions& options_;

  HttpTurn turn_;
  CheckBody body_;  // shared: one request is read at a time
  HttpCheck check_;
  HttpSettle settle_;
  HttpPermits release_;
  HttpPermits renew_;
  HttpHolders holders_;
  HttpLimits limits_;
  HttpAuth auth_;
  HttpMetrics metrics_;
  HttpHealth health_;
  HttpReady ready_;
};

}  // namespace penstock::api
