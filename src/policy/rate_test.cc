#include "policy/rate.h"

#include <gtest/gtest.h>

namespace penstock::policy {
namespace {

using core::RateKind;

std::string ErrorOf(std::string_view text) {
  const auto rate = ParseRate(text);
  return rate ? "none" : rate.error().message;
}

TEST(Rate, ReadsEveryForm) {
  EXPECT_EQ(ParseRate("100/min").value(), (Rate{RateKind::kFinite, 100, Seconds(60)}));
  EXPECT_EQ(ParseRate("5/10s").value(), (Rate{RateKind::kFinite, 5, Seconds(10)}));
  EXPECT_EQ(ParseRate("1_000_000/30d").value(), (Rate{RateKind::kFinite, 1'000'000, Seconds(30 * 86'400)}));
  EXPECT_EQ(ParseRate("1/us").value(), (Rate{RateKind::kFinite, 1, Micros{1}}));
  EXPECT_EQ(ParseRate("7/250ms").value(), (Rate{RateKind::kFinite, 7, Millis(250)}));
  EXPECT_EQ(ParseRate("2/h").value(), (Rate{RateKind::kFinite, 2, Seconds(3600)}));
  EXPECT_EQ(ParseRate("3/2w").value(), (Rate{RateKind::kFinite, 3, Seconds(14 * 86'400)}));
  EXPECT_EQ(ParseRate("1000").value(), (Rate{RateKind::kFinite, 1000, {}}));
  EXPECT_EQ(ParseRate("0").value(), (Rate{RateKind::kZero, 0, {}}));
  EXPECT_EQ(ParseRate("unlimited").value(), (Rate{RateKind::kUnlimited, 0, {}}));
}

TEST(Rate, RefusesWithTheNearestWord) {
  EXPECT_EQ(ErrorOf("5/sec"), "unknown unit \"sec\" (did you mean s?)");
  EXPECT_EQ(ErrorOf("5/m"), "unknown unit \"m\" (did you mean min?)");
  EXPECT_EQ(ErrorOf("5/month"), "unknown unit \"month\" (did you mean calendar: month?)");
  EXPECT_EQ(ErrorOf("5/fortnight"), "unknown unit \"fortnight\" (one of us, ms, s, min, h, d, w)");
  EXPECT_EQ(ErrorOf("unlimitted"), "\"unlimitted\" is no rate (did you mean unlimited?)");
  EXPECT_EQ(ErrorOf("5/10"), "\"10\" has no unit (one of us, ms, s, min, h, d, w)");
}

// Case C12.
TEST(Rate, RefusesZeroNegativeAndNoNumber) {
  EXPECT_EQ(ErrorOf("0/min"), "\"0/min\" has count 0: write 0 to deny always");
  EXPECT_EQ(ErrorOf("5/0s"), "\"0s\" is no time at all: more than 0 is needed");
  EXPECT_EQ(ErrorOf("-5/min"), "\"-5\" is no whole number");
  EXPECT_EQ(ErrorOf("-5"), "\"-5\" is no rate: COUNT/PERIOD, e.g. 100/min; 0; or unlimited");
  EXPECT_EQ(ErrorOf("NaN/min"), "\"NaN\" is no whole number");
  EXPECT_EQ(ErrorOf("1.5/min"), "\"1.5\" is no whole number");
  EXPECT_EQ(ErrorOf("1e3/min"), "\"1e3\" is no whole number");
  EXPECT_EQ(ErrorOf("/min"), "a number is missing");
  EXPECT_EQ(ErrorOf("5/"), "\"\" has no unit (one of us, ms, s, min, h, d, w)");
  EXPECT_EQ(ErrorOf("5/-1s"), "unknown unit \"-1s\" (one of us, ms, s, min, h, d, w)");
  EXPECT_NE(ErrorOf(""), "none");
  EXPECT_NE(ErrorOf("99999999999999999999/min"), "none");
  EXPECT_NE(ErrorOf("5/99999999999w"), "none");
}

TEST(Rate, CountsTakeSingleUnderscores) {
  EXPECT_EQ(ParseCount("1_000").value(), 1000);
  EXPECT_EQ(ParseCount("4503599627370496").value(), core::kMaxExact);
  for (const std::string_view bad : {"", "_1", "1_", "1__0", "+1", " 1", "1 ", "0x10", "4503599627370497"}) {
    EXPECT_FALSE(ParseCount(bad)) << bad;
  }
}

TEST(Rate, Durations) {
  EXPECT_EQ(ParseDuration("20ms").value(), Millis(20));
  EXPECT_EQ(ParseDuration("1_000s").value(), Seconds(1000));
  for (const std::string_view bad : {"", "20", "ms", "0s", "1h30min", "-1s", "1 s"})
    EXPECT_FALSE(ParseDuration(bad)) << bad;
}

TEST(Rate, WrittenBackItReadsTheSame) {
  for (const std::string_view text :
       {"100/min", "5/10s", "1000000/30d", "0", "unlimited", "1000", "3/2w", "7/1500us"}) {
    EXPECT_EQ(FormatRate(ParseRate(text).value()), text);
  }
  EXPECT_EQ(FormatDuration(Seconds(90)), "90s");
  EXPECT_EQ(FormatDuration(Seconds(120)), "2min");
}

}  // namespace
}  // namespace penstock::policy
