// From a request to a decision: finds the limits that match, asks the engine once, and puts the answer together by
// the rules of the top-level answer (never > denied > unavailable > allowed, then the largest wait, then the
// smallest remaining, the smallest limit, the policy's order). One Decider an event loop.
//
// Thread contract: all calls on the loop's thread. Receivers are called on it too: inside Flush where the engine
// answers inline, later otherwise. A receiver may Submit and Flush while it is called; what it submits is decided
// after the batch at hand.
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
#include "service/permit_desk.h"

namespace penstock::service {

class HolderDesk;

// A request as the protocols make it. Views must stay valid until Submit returns.
struct Request {
  engine::Mode mode = engine::Mode::kCheck;
  // Shows the state of every limit that matches, whatever its unit: a peek; the options' costs are not used.
  bool look = false;
  // A promise: this object and all its views stay valid until the receiver has heard. Nothing is copied then.
  bool stable = false;
  std::string_view domain;
  std::span<const Attribute> attributes;
  // Ad hoc: a key with a limit of the caller's own, without policy; `domain` and `attributes` are then not used.
  std::optional<core::RateSpec> ad_hoc;
  std::string_view ad_hoc_key;
  // Permit limits do not apply: nobody would give back (forward-auth).
  bool without_permits = false;
  // Only this limit of the domain (look, reset); empty = all that match.
  std::string_view only_limit;
  // kSettle: `costs` and `request_id` are required; what was really used, a unit.
  CheckOptions options;
  // Where to put the decision together instead of in the decider's own room; must live as long as `stable` says.
  Decision* into = nullptr;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The decision is valid only during the call. An Error is the caller's mistake, never a refusal: kInvalid (a value
  // out of its bounds), kTooLarge (too many limits match, a key too long), kNotFound (unknown domain or limit; settle:
  // no such request id), kConflict (the request id belongs to another request).
  virtual void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept = 0;
};

class Decider {
 public:
  virtual ~Decider() = default;
  // Queues a request; the receiver hears of it exactly once, not before Flush.
  virtual void Submit(const Request& request, Receiver& receiver, uint64_t token) = 0;
  // Decides everything submitted since the last Flush, within the engine's time-out from now.
  virtual void Flush() = 0;
  // The receiver goes away: it hears of nothing that it has submitted. What was charged stays charged, but a permit that
  // nobody hears of is given back, unless its request has an id under which it can be asked for again; and a place in a
  // queue is left.
  virtual void Detach(const Receiver& receiver) = 0;
  // The same for what it has submitted under that token: whoever wanted to know has gone.
  virtual void Cancel(const Receiver& receiver, uint64_t token) = 0;

  // What is asked about permits by their id, and about a bucket's holders. As long as the decider.
  virtual PermitDesk& permits() = 0;
  virtual HolderDesk& holders() = 0;
};

}  // namespace penstock::service
