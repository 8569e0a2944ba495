// From a request to a decision: finds the limits that match, asks the engine once, and puts the answer together by
// the rules of the top-level answer (never > denied > unavailable > allowed, then the largest wait, then the
// smallest remaining, the smallest limit, the policy's order). One Decider an event loop.
//
// Thread contract: all calls on the loop's thread. Receivers are called on it too: inside Flush where the engine
// answers inline, later otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "core/params.h"
#include "engine/engine.h"
#include "penstock/decision.h"
#include "penstock/request.h"

namespace penstock::service {

// A request as the protocols make it. Views must stay valid until Submit returns.
struct Request {
  engine::Mode mode = engine::Mode::kCheck;
  std::string_view domain;
  std::span<const Attribute> attributes;
  // Ad hoc: a key with a limit of the caller's own, without policy; `domain` and `attributes` are then not used.
  std::optional<core::RateSpec> ad_hoc;
  std::string_view ad_hoc_key;
  // Only this limit of the domain (look, reset); empty = all that match.
  std::string_view only_limit;
  CheckOptions options;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The decision is valid only during the call. An Error is the caller's mistake (unknown domain, cost out of range,
  // an id in use by another request), never a refusal.
  virtual void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept = 0;
};

class Decider {
 public:
  virtual ~Decider() = default;
  // Queues a request; the receiver hears of it exactly once, not before Flush.
  virtual void Submit(const Request& request, Receiver& receiver, uint64_t token) = 0;
  // Decides everything submitted since the last Flush, within the policy's time-out from now.
  virtual void Flush() = 0;
};

}  // namespace penstock::service
