// A node's share of a limit: what it may admit by itself while the engine cannot be asked, so that all shares together
// are never more than the limit. Pure.
#pragma once

#include <optional>

#include "core/params.h"
#include "engine/fleet.h"

namespace penstock::service {

// Of n nodes each has the rate C per n*P, exactly, and of a burst, of permits or of a window's count floor(B/n), the first B mod n
// nodes one more (a node without an index none). Nothing where that is 0 or cannot be held exactly. A limit without a
// number is its own share.
//
// Precondition: fleet.known and fleet.nodes > 0.
std::optional<core::LimitParams> ShareOf(const core::LimitParams& params, const engine::Fleet& fleet);

}  // namespace penstock::service
