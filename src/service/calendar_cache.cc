#include "service/calendar_cache.h"

#include <utility>

#include "policy/calendar.h"

namespace penstock::service {

Result<const core::WindowBoundaries*> CalendarCache::Find(const core::Limit& limit, EngineTime now) {
  Entry* place = nullptr;
  for (size_t i = 0; i < used_; ++i) {
    Entry& entry = entries_[i];
    if (entry.kind != limit.params.window || entry.timezone != limit.timezone) continue;
    if (now >= entry.edges.current && now < entry.edges.next) [[likely]]
      return &entry.edges;
    place = &entry;
    break;
  }
  Result<core::WindowBoundaries> edges =
      policy::CalendarBoundaries(limit.params.window, limit.timezone.empty() ? "UTC" : limit.timezone, now);
  if (!edges) return tl::unexpected<Error>(std::move(edges).error());
  if (place == nullptr) {
    place = &entries_[used_ < kEntries ? used_++ : next_++ % kEntries];
    place->kind = limit.params.window;
    place->timezone = limit.timezone;
  }
  place->edges = *edges;
  return &place->edges;
}

}  // namespace penstock::service
