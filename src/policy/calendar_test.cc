#include "policy/calendar.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace penstock::policy {
namespace {

using core::WindowKind;

// "2024-02-29T12:00:00Z" by the C library, which shares nothing with the code under test.
EngineTime At(const char* text) {
  std::tm parts{};
  EXPECT_NE(strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts), nullptr) << text;
  return {int64_t{timegm(&parts)} * 1'000'000};
}

std::string Text(EngineTime time) {
  const std::time_t seconds = time.us / 1'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char out[32];
  std::strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return time.us % 1'000'000 == 0 ? out : std::string(out) + "+";
}

std::string Edges(WindowKind kind, std::string_view zone, EngineTime now) {
  const auto edges = CalendarBoundaries(kind, zone, now);
  if (!edges) return edges.error().message;
  return Text(edges->previous) + " " + Text(edges->current) + " " + Text(edges->next) + " " +
         Text(edges->end_of_next);
}

// Case C26: local midnight of the 1st over both changes of the clock and a leap day.
TEST(Calendar, MonthsInBerlin) {
  const std::string february =
      "2023-12-31T23:00:00Z 2024-01-31T23:00:00Z 2024-02-29T23:00:00Z 2024-03-31T22:00:00Z";
  EXPECT_EQ(Edges(WindowKind::kMonth, "Europe/Berlin", At("2024-02-29T12:00:00Z")), february);
  EXPECT_EQ(Edges(WindowKind::kMonth, "Europe/Berlin", At("2024-02-29T22:59:59Z")), february);
  EXPECT_EQ(Edges(WindowKind::kMonth, "Europe/Berlin", At("2024-02-29T23:00:00Z") - Micros{1}), february);
  const std::string march =
      "2024-01-31T23:00:00Z 2024-02-29T23:00:00Z 2024-03-31T22:00:00Z 2024-04-30T22:00:00Z";
  EXPECT_EQ(Edges(WindowKind::kMonth, "Europe/Berlin", At("2024-02-29T23:00:00Z")), march);
  EXPECT_EQ(Edges(WindowKind::kMonth, "Europe/Berlin", At("2024-03-31T01:30:00Z")), march);
  EXPECT_EQ(Edges(WindowKind::kMonth, "Europe/Berlin", At("2024-10-27T00:30:00Z")),
            "2024-08-31T22:00:00Z 2024-09-30T22:00:00Z 2024-10-31T23:00:00Z 2024-11-30T23:00:00Z");
}

TEST(Calendar, DaysWeeksAndYearsInBerlin) {
  // The day of 23 hours, and the one of 25.
  EXPECT_EQ(Edges(WindowKind::kDay, "Europe/Berlin", At("2024-03-31T12:00:00Z")),
            "2024-03-29T23:00:00Z 2024-03-30T23:00:00Z 2024-03-31T22:00:00Z 2024-04-01T22:00:00Z");
  EXPECT_EQ(Edges(WindowKind::kDay, "Europe/Berlin", At("2024-10-27T12:00:00Z")),
            "2024-10-25T22:00:00Z 2024-10-26T22:00:00Z 2024-10-27T23:00:00Z 2024-10-28T23:00:00Z");
  // Sunday evening belongs to the week before Monday.
  EXPECT_EQ(Edges(WindowKind::kWeek, "Europe/Berlin", At("2024-03-31T21:59:59Z")),
            "2024-03-17T23:00:00Z 2024-03-24T23:00:00Z 2024-03-31T22:00:00Z 2024-04-07T22:00:00Z");
  EXPECT_EQ(Edges(WindowKind::kWeek, "UTC", At("2024-04-01T00:00:00Z")),
            "2024-03-25T00:00:00Z 2024-04-01T00:00:00Z 2024-04-08T00:00:00Z 2024-04-15T00:00:00Z");
  EXPECT_EQ(Edges(WindowKind::kYear, "Europe/Berlin", At("2023-12-31T23:00:00Z")),
            "2022-12-31T23:00:00Z 2023-12-31T23:00:00Z 2024-12-31T23:00:00Z 2025-12-31T23:00:00Z");
}

// Brazil's clocks went from 23:59:59 to 01:00:00 in 2018.
TEST(Calendar, AMidnightThatDoesNotExistIsTheFirstInstantAfter) {
  EXPECT_EQ(Edges(WindowKind::kDay, "America/Sao_Paulo", At("2018-11-04T02:59:59Z")),
            "2018-11-02T03:00:00Z 2018-11-03T03:00:00Z 2018-11-04T03:00:00Z 2018-11-05T02:00:00Z");
  EXPECT_EQ(Edges(WindowKind::kDay, "America/Sao_Paulo", At("2018-11-04T03:00:00Z")),
            "2018-11-03T03:00:00Z 2018-11-04T03:00:00Z 2018-11-05T02:00:00Z 2018-11-06T02:00:00Z");
}

// Cuba's clocks go from 00:59:59 back to 00:00:00; Brazil's went from 23:59:59 back to 23:00:00.
TEST(Calendar, AMidnightThatComesTwiceIsTheFirst) {
  for (const char* time : {"2023-11-05T04:00:00Z", "2023-11-05T05:30:00Z", "2023-11-06T04:59:59Z"}) {
    EXPECT_EQ(Edges(WindowKind::kDay, "America/Havana", At(time)),
              "2023-11-04T04:00:00Z 2023-11-05T04:00:00Z 2023-11-06T05:00:00Z 2023-11-07T05:00:00Z");
  }
  EXPECT_EQ(Edges(WindowKind::kDay, "America/Sao_Paulo", At("2018-02-18T02:30:00Z")),
            "2018-02-16T02:00:00Z 2018-02-17T02:00:00Z 2018-02-18T03:00:00Z 2018-02-19T03:00:00Z");
}

// Samoa had no 30 December 2011.
TEST(Calendar, ADayThatAZoneLeftOutHasNoWindow) {
  EXPECT_EQ(Edges(WindowKind::kDay, "Pacific/Apia", At("2011-12-30T09:00:00Z")),
            "2011-12-28T10:00:00Z 2011-12-29T10:00:00Z 2011-12-30T10:00:00Z 2011-12-31T10:00:00Z");
  EXPECT_EQ(Edges(WindowKind::kDay, "Pacific/Apia", At("2011-12-30T11:00:00Z")),
            "2011-12-29T10:00:00Z 2011-12-30T10:00:00Z 2011-12-31T10:00:00Z 2012-01-01T10:00:00Z");
}

TEST(Calendar, EveryHourOfYearsLiesInItsWindow) {
  for (const std::string_view zone :
       {"Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
        "Asia/Kathmandu", "Africa/Casablanca", "UTC"}) {
    for (const WindowKind kind :
         {WindowKind::kDay, WindowKind::kWeek, WindowKind::kMonth, WindowKind::kYear}) {
      core::WindowBoundaries before{};
      bool first = true;
      for (EngineTime now = At("2010-12-31T00:00:00Z"); now < At("2013-02-01T00:00:00Z");
           now = now + Seconds(3'600)) {
        const auto edges = CalendarBoundaries(kind, zone, now).value();
        ASSERT_LT(edges.previous, edges.current) << zone << Text(now);
        ASSERT_LE(edges.current, now) << zone << Text(now);
        ASSERT_LT(now, edges.next) << zone << Text(now);
        ASSERT_LT(edges.next, edges.end_of_next) << zone << Text(now);
        if (!first && edges.current != before.current) {
          ASSERT_EQ(edges.current, before.next) << zone << Text(now);
          ASSERT_EQ(edges.previous, before.current) << zone << Text(now);
          ASSERT_EQ(edges.next, before.end_of_next) << zone << Text(now);
        }
        before = edges;
        first = false;
      }
    }
  }
}

TEST(Calendar, RefusesUnknownZonesAndTimes) {
  EXPECT_EQ(KnownZone("Europe/Berln").error().message,
            "unknown time zone \"Europe/Berln\" (did you mean Europe/Berlin?)");
  EXPECT_EQ(KnownZone("Nowhere/Atlantis/At/All").error().message,
            "unknown time zone \"Nowhere/Atlantis/At/All\" (e.g. UTC or Europe/Berlin)");
  EXPECT_FALSE(KnownZone("../../etc/passwd"));
  EXPECT_TRUE(KnownZone("UTC"));
  EXPECT_TRUE(KnownZone("America/New_York"));
  EXPECT_FALSE(CalendarBoundaries(WindowKind::kDay, "UTC", {INT64_MAX}));
  EXPECT_FALSE(CalendarBoundaries(WindowKind::kDay, "UTC", {INT64_MIN}));
  EXPECT_FALSE(CalendarBoundaries(WindowKind::kEpoch, "UTC", {0}));
  EXPECT_EQ(Edges(WindowKind::kMonth, "UTC", {0}),
            "1969-12-01T00:00:00Z 1970-01-01T00:00:00Z 1970-02-01T00:00:00Z 1970-03-01T00:00:00Z");
}

}  // namespace
}  // namespace penstock::policy
