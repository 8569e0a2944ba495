// The edges of calendar windows, kept between decisions: a time-zone library is asked once a window, not once a call.
//
// Thread contract: one event loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "core/limit.h"
#include "core/operation.h"

namespace penstock::service {

class CalendarCache {
 public:
  static constexpr size_t kEntries = 64;  // pairs of window kind and time zone at hand at once

  // The edges of the limit's window that `now` falls into. Valid until the next call.
  Result<const core::WindowBoundaries*> Find(const core::Limit& limit, EngineTime now);

 private:
  struct Entry {
    core::WindowKind kind = core::WindowKind::kEpoch;
    std::string timezone;
    core::WindowBoundaries edges;  // hold for now in [edges.current, edges.next)
  };
  std::array<Entry, kEntries> entries_;
  size_t used_ = 0;  // entries_[0, used_) are set
  size_t next_ = 0;  // the one that is replaced next when all are
};

}  // namespace penstock::service
