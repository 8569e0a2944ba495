// /v1/limits: which limits are in force, their change at run time, and the buckets behind them.
//   GET /v1/limits, /v1/limits/{domain}/{name}
//   PUT, DELETE /v1/limits/{domain}/{name}
//   GET, DELETE /v1/limits/{domain}/{name}/buckets?user=42   (look, reset)
//   GET, DELETE /v1/limits/{domain}/{name}/holders?user=42   (http_holders.h)
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include <string>

#include "api/http_holders.h"
#include "api/http_verb.h"
#include "api/server_view.h"

namespace penstock::api {

class HttpLimits final : public HttpVerb {
 public:
  // `changes` null: limits cannot be changed here.
  HttpLimits(HttpTurn& turn, const ServerView& server, LimitChanges* changes, HttpHolders& holders)
      : HttpVerb(turn), server_(server), changes_(changes), holders_(holders) {}
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  void List(std::string_view domain, std::string_view name, const HttpSlot& slot);
  void Change(const http::Request& request, std::string_view domain, std::string_view name,
              const HttpSlot& slot);
  void Changed(const HttpSlot& slot, int status, const Result<engine::RegisteredLimit>& changed);
  bool Exists(std::string_view domain, std::string_view name) const;
  void Bucket(const http::Request& request, std::string_view domain, std::string_view name,
              const HttpSlot& slot);
  void Decided(const HttpAsk& ask, const Result<const Decision*>& decision) noexcept override;

  const ServerView& server_;
  LimitChanges* const changes_;
  HttpHolders& holders_;
};

}  // namespace penstock::api
