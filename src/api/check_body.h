// The JSON bodies of /v1/check, /v1/release and /v1/renew (one thing or an array of them) and of /v1/settle, read into
// service requests. One table of fields drives reading and errors: each error names the field, and an unknown field the
// nearest valid one.
//
// Thread contract: one thread. Reused between requests; small bodies cost no allocation.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "service/decider.h"

namespace penstock::api {

inline constexpr size_t kMaxChecksPerRequest = 1'000;

// What /v1/release and /v1/renew are about.
struct PermitWords {
  std::string_view id;
  std::chrono::milliseconds lease{0};  // renew; 0 = the limit's own
};

class CheckBody {
 public:
  CheckBody();
  ~CheckBody();

  // The views of what Read returns point into the parsed document, not into `body`.
  Result<void> Parse(std::string_view body);
  bool is_array() const;
  size_t size() const;  // of the array; 1 for a single thing

  // The check at `index`, or what is wrong with it. Valid until the next Read or Parse.
  Result<service::Request> ReadCheck(size_t index);
  // The body as a settlement: costs are required.
  Result<service::Request> ReadSettle();
  // What is to be released, or renewed, at `index`. Valid until the next Parse.
  enum class PermitVerb : unsigned char { kRelease, kRenew };
  Result<PermitWords> ReadPermit(size_t index, PermitVerb verb);

 private:
  struct Document;
  std::unique_ptr<Document> document_;
};

}  // namespace penstock::api
