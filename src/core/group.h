// One request: all its limits decided together, all or nothing (rule E4). Pure: no clock, I/O, lock or heap.
#pragma once

#include <span>

#include "base/time.h"
#include "core/operation.h"

namespace penstock::core {

struct GroupOptions {
  Micros max_wait{};   // 0 to 60 s; token buckets only (rule E8)
  bool force = false;  // always charge (rule E7)
  bool partial =
      false;  // take, a unit, the smallest of the cost and what each enforced limit of that unit has
  // Judge, but charge nobody, as if another limit of the request refused it: for the part of a request whose other
  // part is decided elsewhere.
  bool dry = false;
  // Permits: what the request brings to hold; null: no permit is granted under an id of the caller's, and nobody queues.
  const PermitAsk* permit = nullptr;
};

enum class GroupStatus : uint8_t {
  kDecided,
  kStale,            // a bucket remembers a newer version than the operation's limit: reload and repeat
  kStaleBoundaries,  // the engine's clock is outside an operation's calendar boundaries: recompute and repeat
};

// Decides all operations as of `now`, and fills their verdicts, edits and charges.
// - Enforced limits: if one refuses, nobody is charged; the others' verdicts are as a peek leaves them.
// - Shadow limits: charged iff the request is allowed and they have room themselves; never decide.
// - An operation whose bucket was written under an older version is converted (rule E6) and its edit writes even
//   when the group is refused; version 0 on both sides converts too but writes only with a charge, and until then
//   retry_after and reset_after are by the parameters that the bucket goes on with.
// - Permits are granted whole: weight is never partial. Where nothing but enforced permit limits refuses, for now, and
//   the ask may queue, it stands in the queue of the first of them, and leaves every other (PermitChange).
// - With status other than kDecided no edit may be carried out.
GroupStatus DecideGroup(std::span<Operation> operations, const GroupOptions& options, EngineTime now);

// Which of several outcomes a request has: the largest. never > denied > unavailable > allowed.
constexpr int Severity(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAllowed:
      return 0;
    case Outcome::kUnavailable:
      return 1;
    case Outcome::kDenied:
      return 2;
    case Outcome::kNever:
      return 3;
  }
  return 1;
}

// The severest verdict among a group's enforced limits.
Outcome GroupOutcome(std::span<const Operation> operations);

// Whether the group is refused for now, and by permit limits alone: then a permit that comes back may let it pass.
bool PermitsAloneRefuse(std::span<const Operation> operations);

// Changes what an earlier charge took by `delta` (whole costs): negative gives back by rule E4 (an undo is
// -charge.cost), positive charges more by force in the window that was charged, or nothing where that is gone (a
// token bucket: now). Never more comes back than the charge took. A give-back that meets a bucket written under a newer version than the charge's is dropped.
// Fills operation.edit, verdict (as a peek after it) and charge (as it now stands, for the next settle).
// operation.cost is ignored. A bucket written under a newer version than the limit's is left alone: outcome
// kUnavailable.
// Permits: `permit` names whose; a positive delta counts one that was granted elsewhere, though it may pass the capacity.
void AdjustCharge(Operation& operation, const Charge& charge, int64_t delta, EngineTime now,
                  const PermitAsk* permit = nullptr);

// The instant from which the bucket is the same as an absent one. TTLs and eviction come from here.
EngineTime IdleAt(const LimitParams& params, const BucketState& state);

}  // namespace penstock::core
