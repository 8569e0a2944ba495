// The edges of calendar windows in a time zone, from the system's zone data. The decision itself has no time-zone
// library (rule E1): it is handed these four instants.
//
// Thread contract: any thread. The first call reads the list of zones from disk; keep it off an event loop by asking
// KnownZone at load.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "core/operation.h"
#include "core/params.h"

namespace penstock::policy {

// Fails with the nearest zone's name when there is no such zone. UTC needs no zone data.
Result<void> KnownZone(std::string_view zone);

// The window that holds `now` (current <= now < next), the one before and the one after. Windows begin at local
// midnight: of every day, of Monday, of the 1st, of January 1st. A midnight that does not exist is the first instant
// after it, one that comes twice is the first; a day that a zone left out has no window.
Result<core::WindowBoundaries> CalendarBoundaries(core::WindowKind kind, std::string_view zone,
                                                  EngineTime now);

}  // namespace penstock::policy
