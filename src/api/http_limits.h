// /v1/limits: what the policy says, and the buckets behind it.
//   GET /v1/limits, /v1/limits/{domain}/{name}
//   GET, DELETE /v1/limits/{domain}/{name}/buckets?user=42   (look, reset)
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include <string>

#include "api/http_verb.h"
#include "api/pending.h"
#include "api/server_view.h"

namespace penstock::api {

class HttpLimits final : public HttpVerb, private service::Receiver {
 public:
  HttpLimits(Turn& turn, const ServerView& server) : HttpVerb(turn), server_(server) {}
  ~HttpLimits() override { turn_.decider().Detach(*this); }
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  void List(std::string_view domain, std::string_view name, const HttpSlot& slot);
  void Bucket(const http::Request& request, std::string_view domain, std::string_view name,
              const HttpSlot& slot);
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override;

  const ServerView& server_;
  PendingPool<HttpSlot> pending_;
};

}  // namespace penstock::api
