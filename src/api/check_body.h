// The JSON body of /v1/check (one check or an array of them) and of /v1/settle, read into service requests. One table
// of fields drives reading and errors: each error names the field, and an unknown field the nearest valid one.
//
// Thread contract: one thread. Reused between requests; small bodies cost no allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "service/decider.h"

namespace penstock::api {

inline constexpr size_t kMaxChecksPerRequest = 1'000;

class CheckBody {
 public:
  CheckBody();
  ~CheckBody();

  // The views of what Read returns point into the parsed document, not into `body`.
  Result<void> Parse(std::string_view body);
  bool is_array() const;
  size_t size() const;  // number of checks; 1 for a single one

  // The check at `index`, or what is wrong with it. Valid until the next Read or Parse.
  Result<service::Request> ReadCheck(size_t index);
  // The body as a settlement: costs are required.
  Result<service::Request> ReadSettle();

 private:
  struct Document;
  std::unique_ptr<Document> document_;
};

}  // namespace penstock::api
