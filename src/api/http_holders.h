// Who holds a semaphore's permits, and how they are taken from one by his name:
//   GET, DELETE /v1/limits/{domain}/{name}/holders?user=42[&holder=name]
//   GET, DELETE /v1/holders?key=sema:api[&holder=name]                    (ad hoc)
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include "api/http_verb.h"

namespace penstock::api {

class HttpHolders final : public HttpVerb {
 public:
  explicit HttpHolders(HttpTurn& turn) : HttpVerb(turn) {}
  // Of an ad hoc key.
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;
  // Of a policy's limit.
  void OfLimit(const http::Request& request, std::string_view domain, std::string_view name,
               const HttpSlot& slot);

 private:
  enum What : uint32_t { kShow, kRelease };

  // Answers, and says true, where the method is none of ours.
  bool RefuseMethod(const http::Request& request, const HttpSlot& slot);
  void List(const http::Request& request, const service::Request& bucket, std::string_view holder,
            HttpAsk ask);
  void HoldersListed(const HttpAsk& ask, const Result<const service::Holders*>& holders) noexcept override;
  void ReleaseAll(const HttpAsk& ask, const service::Holders& holders);
  void PermitAnswered(const HttpAsk& ask, const service::PermitAnswer& answer) noexcept override;
  void FinishRelease(const HttpAsk& ask);
};

}  // namespace penstock::api
