// What is asked about a permit that was granted, or is waited for: by its id alone, without policy or limit.
//
// A permit's id says all that an engine needs: the permit's own number, its weight, and of each bucket where it is
// held the name and the fence. To its owner it is opaque text (permit_id.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "base/time.h"
#include "core/permit.h"
#include "penstock/decision.h"

namespace penstock::engine {

inline constexpr size_t kMaxPermitBuckets = 8;  // permit limits that one request may match

struct PermitPlace {
  Hash128 bucket;  // the engine's own name of it
  int64_t fence = 0;
  friend bool operator==(const PermitPlace&, const PermitPlace&) = default;
};

// Invariant: 1 <= size <= kMaxPermitBuckets, 1 <= weight.
struct PermitId {
  Hash128 id;
  uint32_t weight = 1;
  // Granted by what stood in for the engine while it could not be asked.
  bool local = false;
  uint8_t size = 0;
  std::array<PermitPlace, kMaxPermitBuckets> places{};

  std::span<const PermitPlace> held() const { return {places.data(), size}; }
  friend bool operator==(const PermitId& a, const PermitId& b) {
    return a.id == b.id && a.weight == b.weight && a.local == b.local &&
           std::equal(a.held().begin(), a.held().end(), b.held().begin(), b.held().end());
  }
};

enum class PermitVerb : uint8_t {
  kRelease,
  kRenew,
  // Takes it out of the queues of its buckets, whose fences do not count; answered kReleased or kUnknown.
  kLeave,
};

// What comes of a call that all went well with: what its places are put together from (core::Together).
constexpr core::PermitFate DoneFate(PermitVerb verb) {
  return verb == PermitVerb::kRenew ? core::PermitFate::kRenewed : core::PermitFate::kReleased;
}

struct PermitCall {
  // In.
  PermitVerb verb = PermitVerb::kRelease;
  PermitId permit;
  Micros lease{};  // kRenew: at most the limit's; 0 = the limit's own
  uint64_t token = 0;

  // Out. Over several buckets as core::Together says; the earliest expiry.
  core::PermitFate fate = core::PermitFate::kUnavailable;
  Reason reason = Reason::kNone;  // kUnavailable: why
  Micros expires_in{};            // kRenewed
};

class PermitSink {
 public:
  virtual ~PermitSink() = default;
  // The call's fate is known. Must not throw.
  virtual void Called(PermitCall& call) noexcept = 0;
};

class PermitWaker {
 public:
  virtual ~PermitWaker() = default;
  virtual void Woken(const Hash128& permit_id) noexcept = 0;
};

}  // namespace penstock::engine
