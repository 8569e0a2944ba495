// From the verdicts of one request's limits to its Decision: which limit decides, what the top level says, and what
// `unavailable` means by each limit's on_failure. Pure: no clock, lock or I/O.
#pragma once

#include <span>

#include "core/operation.h"
#include "engine/engine.h"
#include "penstock/decision.h"
#include "service/limit_info.h"
#include "service/metrics.h"

namespace penstock::service {

// What a limit whose on_failure is `local` does when the engine cannot be asked and nothing local can decide for it:
// the memory engine's on_full for a full table, deny otherwise.
enum class OnFull : uint8_t { kDeny, kAllow };

struct ComposeInput {
  std::span<const core::Operation> operations;  // skipped ones are left out
  const engine::GroupResult* result = nullptr;  // kDecided or kUnavailable
  const LimitInfo* infos = nullptr;             // by core::Limit::number
  OnFull on_full = OnFull::kDeny;
  bool partial = false;              // fill Decision::taken
  Micros waited{};                   // in a queue, for a permit
  LoopCounters* counters = nullptr;  // null: not to be counted
};

// Empties the decision, without its heap room, and sets what holds when no limit applies: allowed, no limit.
void SetUnlimited(Decision& decision);

// Fills every field of the decision but `error`, which it clears.
void Compose(const ComposeInput& input, Decision& decision);

// Whether `a` rather than `b` stands at the top level; both enforced. Outcomes by never > denied > unavailable >
// allowed, then (refused) the largest retry_after, then the smallest remaining, then the smallest limit; a tie leaves
// the first in the policy's order.
bool Decides(const LimitDecision& a, const LimitDecision& b);

}  // namespace penstock::service
