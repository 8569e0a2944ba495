// What a request must satisfy before anything is matched or asked, and the fingerprint that tells a repeat of a
// request from another one under the same id (rule E10).
#pragma once

#include <cstdint>
#include <string>

#include "service/decider.h"

namespace penstock::service {

// Every bound of penstock/request.h that does not depend on the policy. The message names the field.
Result<void> CheckRequest(const Request& request);

// Of what decides how much is charged to what: domain, attributes in any order, ad hoc key and limit, costs, weight,
// force and partial. Not of max_wait, holder or lease: a retry may have less time left. The same on every node.
// `scratch` keeps its capacity.
uint64_t Fingerprint(const Request& request, std::string& scratch);

}  // namespace penstock::service
