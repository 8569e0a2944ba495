// /metrics, /healthz, /readyz: what monitors ask.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/http_verb.h"
#include "api/server_view.h"

namespace penstock::api {

class HttpMetrics final : public HttpVerb {
 public:
  HttpMetrics(HttpTurn& turn, const ServerView& server) : HttpVerb(turn), server_(server) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  const ServerView& server_;
};

// Alive: the process answers.
class HttpHealth final : public HttpVerb {
 public:
  using HttpVerb::HttpVerb;
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;
};

class HttpReady final : public HttpVerb {
 public:
  HttpReady(HttpTurn& turn, const ServerView& server) : HttpVerb(turn), server_(server) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  const ServerView& server_;
};

}  // namespace penstock::api
