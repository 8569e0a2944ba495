// POST /v1/check: one check or an array of them.
//
// Thread contract: the loop's thread, as http_api.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/check_body.h"
#include "api/http_verb.h"
#include "api/pending.h"

namespace penstock::api {

class HttpCheck final : public HttpVerb, private service::Receiver {
 public:
  HttpCheck(Turn& turn, CheckBody& body) : HttpVerb(turn), body_(body) {}
  ~HttpCheck() override { turn_.decider().Detach(*this); }
  void Handle(const http::Request& request, std::string_view rest, const HttpSlot& slot) override;

 private:
  // An array is answered when its last item is known.
  struct Array {
    HttpSlot slot;
    size_t missing = 0;
    std::vector<std::string> items;
  };
  struct Pending {
    HttpSlot slot;
    SteadyTime begin;
    std::shared_ptr<Array> array;  // null: a check of its own
    size_t index = 0;
  };

  void HandleArray(const HttpSlot& slot);
  void Submit(const service::Request& request, Pending pending);
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override;
  void FinishItem(Array& array);

  CheckBody& body_;
  PendingPool<Pending> pending_;
};

}  // namespace penstock::api
