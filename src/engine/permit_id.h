// A permit's id as its owner has it: base64url without padding, at most kMaxPermitText bytes.
//
//   byte 0      layout (1) in the high four bits, flags in the low: 1 = local
//   16 bytes    the permit's number, big-endian like everything here
//   4 bytes     weight
//   24 bytes    for each of its 1 to 8 buckets: 16 bytes of the engine's name, 8 of the fence
//
// It holds no secret of the engine and is no proof of a right: who has the id may release and renew.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "core/operation.h"
#include "engine/permit_call.h"
#include "penstock/decision.h"

namespace penstock::engine {

struct GroupResult;

// Null where the text is none of ours: such a permit is unknown, which is no mistake of the caller's.
std::optional<PermitId> ParsePermitId(std::string_view text);

PermitText ToText(const PermitId& permit);

// Whether a permit limit of a decided group holds the permit that the group was granted.
bool Holds(const core::Operation& operation);

// The permit that a decided group was granted; size 0: none. It has the bucket of every operation that holds.
PermitId GrantedPermit(std::span<const core::Operation> operations, const GroupResult& result);

}  // namespace penstock::engine
