#include "policy/calendar.h"

#include <date/tz.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "policy/diagnostics.h"

namespace penstock::policy {
namespace {

using date::days;
using date::local_days;
using date::months;
using date::year_month_day;
using date::years;

// Years that both the zone library and int64 microseconds hold with room to spare.
constexpr int kFirstYear = 1900;
constexpr int kLastYear = 9990;
// A zone leaves out one day at most; stepping further than this finds nothing more.
constexpr int kMaxSteps = 4;

// Null: UTC.
Result<const date::time_zone*> FindZone(std::string_view zone) {
  if (zone == "UTC" || zone.empty()) return nullptr;
  try {
    const auto& known = date::get_tzdb();
    try {
      return date::locate_zone(zone);
    } catch (const std::runtime_error&) {
      std::vector<std::string_view> names;
      for (const auto& candidate : known.zones) names.push_back(candidate.name());
      const std::string_view near = Nearest(zone, names.data(), names.size());
      return Invalid("unknown time zone " + Quoted(zone) +
                     (near.empty() ? std::string(" (e.g. UTC or Europe/Berlin)")
                                   : " (did you mean " + std::string(near) + "?)"));
    }
  } catch (const std::exception& exception) {
    return Invalid("the system's time zones cannot be read: " + std::string(exception.what()));
  }
}

// The local calendar of one zone.
class LocalCalendar {
 public:
  LocalCalendar(const date::time_zone* zone, core::WindowKind kind) : zone_(zone), kind_(kind) {}

  // The first day of the window that `now` is in by its local date.
  year_month_day FirstDay(date::sys_seconds now) const {
    const auto offset = zone_ == nullptr ? std::chrono::seconds(0) : zone_->get_info(now).offset;
    const auto today = date::floor<days>(date::local_seconds(now.time_since_epoch() + offset));
    const year_month_day date{today};
    switch (kind_) {
      case core::WindowKind::kWeek: {
        const date::weekday weekday{today};
        return year_month_day{today - (weekday - date::Monday)};
      }
      case core::WindowKind::kMonth:
        return date.year() / date.month() / 1;
      case core::WindowKind::kYear:
        return date.year() / 1 / 1;
      default:
        return date;
    }
  }

  year_month_day Step(const year_month_day& first, int windows) const {
    switch (kind_) {
      case core::WindowKind::kWeek:
        return year_month_day{local_days{first} + days(7 * windows)};
      case core::WindowKind::kMonth:
        return first + months(windows);
      case core::WindowKind::kYear:
        return first + years(windows);
      default:
        return year_month_day{local_days{first} + days(windows)};
    }
  }

  // The instant at which the day begins.
  EngineTime Begin(const year_month_day& day) const {
    const date::local_seconds midnight = local_days{day};
    if (zone_ == nullptr) return AtSecond(midnight.time_since_epoch());
    const date::local_info info = zone_->get_info(midnight);
    if (info.result == date::local_info::nonexistent) return AtSecond(info.first.end.time_since_epoch());
    return AtSecond(midnight.time_since_epoch() - info.first.offset);
  }

 private:
  static EngineTime AtSecond(std::chrono::seconds since_epoch) { return {since_epoch.count() * 1'000'000}; }

  const date::time_zone* zone_;
  core::WindowKind kind_;
};

core::WindowBoundaries Boundaries(const LocalCalendar& calendar, EngineTime now) {
  const auto second = date::floor<std::chrono::seconds>(
      date::sys_time<std::chrono::microseconds>(std::chrono::microseconds(now.us)));
  year_month_day first = calendar.FirstDay(second);
  // Where midnight comes twice the local date runs ahead of the window, or behind it, for an hour.
  for (int i = 0; i < kMaxSteps && calendar.Begin(first) > now; ++i) first = calendar.Step(first, -1);
  for (int i = 0; i < kMaxSteps && calendar.Begin(calendar.Step(first, 1)) <= now; ++i)
    first = calendar.Step(first, 1);

  core::WindowBoundaries out;
  out.current = calendar.Begin(first);
  const auto beyond = [&](EngineTime from, int direction) {
    EngineTime at = from;
    for (int i = 1; i <= kMaxSteps && at == from; ++i)
      at = calendar.Begin(calendar.Step(first, direction * i));
    return at;
  };
  out.previous = beyond(out.current, -1);
  out.next = beyond(out.current, 1);
  out.end_of_next = out.next;
  for (int i = 2; i <= 2 + kMaxSteps && out.end_of_next == out.next; ++i) {
    const EngineTime at = calendar.Begin(calendar.Step(first, i));
    if (at > out.next) out.end_of_next = at;
  }
  return out;
}

}  // namespace

Result<void> KnownZone(std::string_view zone) {
  const auto found = FindZone(zone);
  if (!found) return tl::unexpected(found.error());
  return {};
}

Result<core::WindowBoundaries> CalendarBoundaries(core::WindowKind kind, std::string_view zone,
                                                  EngineTime now) {
  if (!core::IsCalendar(kind)) return Invalid("no calendar window");
  const auto found = FindZone(zone);
  if (!found) return tl::unexpected(found.error());
  constexpr auto kMicrosADay = int64_t{86'400'000'000};
  const auto day_of = [](int year) {
    return int64_t{date::sys_days{date::year(year) / 1 / 1}.time_since_epoch().count()} * kMicrosADay;
  };
  if (now.us < day_of(kFirstYear) || now.us >= day_of(kLastYear)) {
    return Invalid("the time is outside the calendar (1900 to 9989)");
  }
  try {
    return Boundaries(LocalCalendar(*found, kind), now);
  } catch (const std::exception& exception) {
    return Invalid("the time zone " + Quoted(zone) + " cannot be read: " + exception.what());
  }
}

}  // namespace penstock::policy
