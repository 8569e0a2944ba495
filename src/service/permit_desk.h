// Releases and renewals: by a permit's id alone, without policy. One desk an event loop.
//
// Thread contract: all calls on the loop's thread. Receivers are called on it too: inside Flush where the engine answers
// inline, later otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "core/permit.h"
#include "penstock/decision.h"

namespace penstock::service {

struct PermitAnswer {
  core::PermitFate fate = core::PermitFate::kUnavailable;
  Reason reason = Reason::kNone;            // kUnavailable: why
  std::chrono::microseconds expires_in{0};  // kRenewed
};

class PermitReceiver {
 public:
  virtual ~PermitReceiver() = default;
  virtual void PermitAnswered(uint64_t token, const PermitAnswer& answer) noexcept = 0;
};

class PermitDesk {
 public:
  virtual ~PermitDesk() = default;
  // Queues a call; the receiver hears of it exactly once, not before Flush. An id that is none of ours is `unknown`. A
  // release that could not be asked is answered `unavailable`, and goes on being tried until it is done or the permit
  // must have expired.
  virtual void Release(std::string_view id, PermitReceiver& receiver, uint64_t token) = 0;
  // lease: 0 = the limit's own; never longer than that.
  virtual void Renew(std::string_view id, std::chrono::milliseconds lease, PermitReceiver& receiver,
                     uint64_t token) = 0;
  virtual void Flush() = 0;
  // The receiver goes away and hears of nothing more; what it asked for is done all the same.
  virtual void Detach(const PermitReceiver& receiver) = 0;
};

}  // namespace penstock::service
