// What a request must satisfy before anything is matched or asked, and the fingerprint that tells a repeat of a
// request from another one under the same id (rule E10).
#pragma once

#include <cstdint>
#include <string>

#include "service/decider.h"

namespace penstock::service {

// Every bound of penstock/request.h that does not depend on the policy. The message names the field.
Result<void> CheckRequest(const Request& request);

// Whether the request asks for nothing out of the ordinary and so is known to be within all bounds.
inline bool IsPlain(const Request& request) {
  const CheckOptions& options = request.options;
  return request.mode == engine::Mode::kCheck && options.costs.empty() &&
         static_cast<uint64_t>(options.cost) <= static_cast<uint64_t>(kMaxCost) && options.weight == 1 &&
         options.max_wait.count() == 0 && options.request_id.empty() && options.settle_within.count() == 0 &&
         options.lease.count() == 0 && options.holder.empty() && !options.partial &&
         request.attributes.size() <= kMaxAttributesPerRequest && request.ad_hoc_key.size() <= kMaxKeyBytes;
}

// Of what decides how much is charged to what: domain, attributes in any order, ad hoc key and limit, costs, weight,
// lease, force and partial. Not of max_wait or holder: a retry may have less time left. The same on every node.
// `scratch` keeps its capacity.
uint64_t Fingerprint(const Request& request, std::string& scratch);

}  // namespace penstock::service
