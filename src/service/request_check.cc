#include "service/request_check.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/hash.h"
#include "policy/diagnostics.h"
#include "service/names.h"

namespace penstock::service {
namespace {

Result<void> CheckCost(std::string_view unit, int64_t cost) {
  if (cost >= -kMaxCost && cost <= kMaxCost) [[likely]]
    return {};
  return Invalid("cost of " + policy::Quoted(unit) + ": " + std::to_string(cost) + " is not within -" +
                 std::to_string(kMaxCost) + " to " + std::to_string(kMaxCost));
}

Result<void> CheckCosts(const CheckOptions& options) {
  if (options.costs.empty()) return CheckCost(kRequestsUnit, options.cost);
  if (options.costs.size() > kMaxUnitsPerRequest) {
    return Fail(ErrorKind::kTooLarge, "costs: more than " + std::to_string(kMaxUnitsPerRequest) + " units");
  }
  for (size_t i = 0; i < options.costs.size(); ++i) {
    const UnitCost& cost = options.costs[i];
    if (cost.unit.empty()) return Invalid("costs: a unit's name is empty");
    if (Result<void> bounds = CheckCost(cost.unit, cost.cost); !bounds) return bounds;
    for (size_t j = 0; j < i; ++j) {
      if (options.costs[j].unit == cost.unit) {
        return Invalid("costs: unit " + policy::Quoted(cost.unit) + " is named twice");
      }
    }
  }
  return {};
}

Result<void> CheckWithin(std::string_view field, int64_t ms, int64_t most) {
  if (ms >= 0 && ms <= most) [[likely]]
    return {};
  return Invalid(std::string(field) + ": " + std::to_string(ms) + " is not within 0 to " +
                 std::to_string(most));
}

Result<void> CheckSettle(const CheckOptions& options) {
  if (options.request_id.empty()) return Invalid("request_id: settle needs the id of the request");
  if (options.costs.empty()) return Invalid("costs: settle needs what was really used");
  for (const UnitCost& cost : options.costs) {
    if (cost.cost < 0)
      return Invalid("costs: what was used of " + policy::Quoted(cost.unit) + " is negative");
  }
  return {};
}

Result<void> CheckRest(const Request& request) {
  const CheckOptions& options = request.options;
  if (options.weight < 1 || options.weight > kMaxCost) {
    return Invalid("weight: " + std::to_string(options.weight) + " is not within 1 to " +
                   std::to_string(kMaxCost));
  }
  if (Result<void> wait = CheckWithin("max_wait_ms", options.max_wait.count(), kMaxWaitMs); !wait)
    return wait;
  if (Result<void> within =
          CheckWithin("settle_within_ms", options.settle_within.count(), kMaxSettleWithinMs);
      !within) {
    return within;
  }
  if (Result<void> lease = CheckWithin("lease_ms", options.lease.count(), kMaxLeaseMs); !lease) return lease;
  if (options.holder.size() > kMaxHolderBytes) {
    return Invalid("holder: longer than " + std::to_string(kMaxHolderBytes) + " bytes");
  }
  if (options.request_id.size() > kMaxRequestIdBytes) {
    return Invalid("request_id: longer than " + std::to_string(kMaxRequestIdBytes) + " bytes");
  }
  if (options.settle_within.count() > 0 && options.request_id.empty()) {
    return Invalid("settle_within_ms: without a request_id there is nothing to settle");
  }
  if (options.force && options.partial) return Invalid("force and partial exclude each other");
  if (request.mode == engine::Mode::kSettle) return CheckSettle(options);
  return {};
}

void AppendNumber(std::string& out, int64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void AppendElement(std::string& out, const Attribute& attribute) {
  AppendSized(out, attribute.name);
  AppendSized(out, attribute.value);
}
void AppendElement(std::string& out, const UnitCost& cost) {
  AppendSized(out, cost.unit);
  AppendNumber(out, cost.cost);
}
bool Before(const Attribute* a, const Attribute* b) {
  return a->name != b->name ? a->name < b->name : a->value < b->value;
}
bool Before(const UnitCost* a, const UnitCost* b) { return a->unit < b->unit; }

template <size_t kMost, class Element>
void AppendSorted(std::string& out, std::span<const Element> elements) {
  std::array<const Element*, kMost> order;
  const size_t count = std::min(elements.size(), kMost);  // CheckRequest has refused more
  for (size_t i = 0; i < count; ++i) order[i] = &elements[i];
  std::sort(order.begin(), order.begin() + count,
            [](const Element* a, const Element* b) { return Before(a, b); });
  AppendNumber(out, static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) AppendElement(out, *order[i]);
}

}  // namespace

Result<void> CheckRequest(const Request& request) {
  const CheckOptions& options = request.options;
  if (Result<void> costs = CheckCosts(options); !costs) return costs;
  if (Result<void> rest = CheckRest(request); !rest) return rest;
  if (request.ad_hoc.has_value()) {
    if (request.ad_hoc_key.size() > kMaxKeyBytes) {
      return Fail(ErrorKind::kTooLarge, "key: longer than " + std::to_string(kMaxKeyBytes) + " bytes");
    }
    return {};
  }
  if (request.attributes.size() > kMaxAttributesPerRequest) {
    return Fail(ErrorKind::kTooLarge, "attributes: more than " + std::to_string(kMaxAttributesPerRequest));
  }
  return {};
}

uint64_t Fingerprint(const Request& request, std::string& scratch) {
  const CheckOptions& options = request.options;
  scratch.clear();
  if (request.ad_hoc.has_value()) {
    const core::RateSpec& spec = *request.ad_hoc;
    AppendSized(scratch, kAdHocDomain);
    AppendSized(scratch, request.ad_hoc_key);
    AppendNumber(scratch, static_cast<int64_t>(spec.algorithm) << 16 |
                              static_cast<int64_t>(spec.window) << 8 | static_cast<int64_t>(spec.kind));
    AppendNumber(scratch, spec.count);
    AppendNumber(scratch, spec.period.count);
    AppendNumber(scratch, spec.burst.value_or(-1));
  } else {
    AppendSized(scratch, request.domain);
    AppendSorted<kMaxAttributesPerRequest>(scratch, request.attributes);
  }
  if (options.costs.empty()) {
    AppendNumber(scratch, 1);
    AppendElement(scratch, UnitCost{kRequestsUnit, options.cost});
  } else {
    AppendSorted<kMaxUnitsPerRequest>(scratch, options.costs);
  }
  AppendNumber(scratch, options.weight);
  AppendNumber(scratch, (options.force ? 1 : 0) | (options.partial ? 2 : 0));
  if (options.lease.count() > 0)
    AppendNumber(scratch, options.lease.count());  // none is as before leases were
  return Checksum64(scratch);
}

}  // namespace penstock::service
