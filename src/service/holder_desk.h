// Who holds the permits of one bucket, for people. One desk an event loop.
//
// Thread contract: as PermitDesk's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/params.h"
#include "penstock/decision.h"
#include "service/decider.h"

namespace penstock::service {

// Whoever looks at an ad hoc semaphore need not know its parameters: they are not part of the bucket's identity, and
// nothing is written.
inline constexpr core::RateSpec kAnySemaphore = {
    .algorithm = core::Algorithm::kPermits, .count = 1, .period = core::kMaxLease};

struct HolderInfo {
  PermitText id;
  std::string_view holder;  // as he named himself; may be empty
  int64_t weight = 1;
  int64_t fence = 0;
  std::chrono::microseconds expires_in{0};
};

struct Holders {
  // What could be asked; kNone: all below holds.
  Reason unavailable = Reason::kNone;
  int64_t permits = 0;  // N; 0 for an ad hoc semaphore, whose callers say it
  int64_t in_use = 0;
  int64_t waiting = 0;
  std::vector<HolderInfo> entries;  // in order of expiry
  bool more = false;                // there are more than are listed
};

class HolderReceiver {
 public:
  virtual ~HolderReceiver() = default;
  // Valid only during the call. An Error is the caller's mistake: kNotFound (unknown domain or limit, attributes to which
  // it does not apply), kInvalid (no permit limit).
  virtual void HoldersListed(uint64_t token, const Result<const Holders*>& holders) noexcept = 0;
};

class HolderDesk {
 public:
  virtual ~HolderDesk() = default;
  // The bucket of `request`: its domain, attributes and only_limit, or its ad hoc key. `holder`: only those who named
  // themselves so; empty = all. The receiver hears exactly once, inside where the engine answers inline.
  virtual void List(const Request& request, std::string_view holder, HolderReceiver& receiver,
                    uint64_t token) = 0;
  virtual void Detach(const HolderReceiver& receiver) = 0;
};

}  // namespace penstock::service
