#include "policy/rate.h"

#include <array>
#include <charconv>

#include "base/bytes.h"
#include "policy/diagnostics.h"

namespace penstock::policy {
namespace {

struct Unit {
  std::string_view name;
  int64_t us;
};

constexpr std::array<Unit, 7> kUnits = {{{"us", 1},
                                         {"ms", 1'000},
                                         {"s", 1'000'000},
                                         {"min", 60'000'000},
                                         {"h", 3'600'000'000},
                                         {"d", 86'400'000'000},
                                         {"w", 604'800'000'000}}};

// What people write from habit, and the word that is meant.
struct Habit {
  std::string_view written;
  std::string_view meant;
};

constexpr std::array<Habit, 21> kHabits = {{{"sec", "s"},
                                            {"secs", "s"},
                                            {"second", "s"},
                                            {"seconds", "s"},
                                            {"m", "min"},
                                            {"mins", "min"},
                                            {"minute", "min"},
                                            {"minutes", "min"},
                                            {"hr", "h"},
                                            {"hour", "h"},
                                            {"hours", "h"},
                                            {"day", "d"},
                                            {"days", "d"},
                                            {"week", "w"},
                                            {"weeks", "w"},
                                            {"msec", "ms"},
                                            {"usec", "us"},
                                            {"mon", "calendar: month"},
                                            {"month", "calendar: month"},
                                            {"year", "calendar: year"},
                                            {"y", "calendar: year"}}};

std::string UnknownUnit(std::string_view unit) {
  std::string message = "unknown unit " + Quoted(unit);
  for (const Habit& habit : kHabits) {
    if (habit.written == unit) return message + " (did you mean " + std::string(habit.meant) + "?)";
  }
  return message + " (one of us, ms, s, min, h, d, w)";
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The digits (and underscores between them) at the front of text.
std::string_view NumberPrefix(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '_')) ++end;
  return text.substr(0, end);
}

// `[N]UNIT`; N defaults to 1 when it may be left out.
Result<Micros> ParsePeriod(std::string_view text, bool number_optional) {
  const std::string_view number = NumberPrefix(text);
  const std::string_view unit = text.substr(number.size());
  int64_t n = 1;
  if (!number.empty()) {
    const auto parsed = ParseCount(number);
    if (!parsed) return tl::unexpected(parsed.error());
    n = *parsed;
  } else if (!number_optional) {
    return Invalid(Quoted(text) + " is no duration: a number and a unit, e.g. 20ms or 30s");
  }
  if (unit.empty()) return Invalid(Quoted(text) + " has no unit (one of us, ms, s, min, h, d, w)");
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    if (n == 0) return Invalid(Quoted(text) + " is no time at all: more than 0 is needed");
    if (n > core::kMaxExact / known.us) return Invalid(Quoted(text) + " is too long to be counted exactly");
    return Micros{n * known.us};
  }
  return Invalid(UnknownUnit(unit));
}

}  // namespace

Result<int64_t> ParseCount(std::string_view text) {
  if (text.empty()) return Invalid("a number is missing");
  int64_t value = 0;
  bool digit_before = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '_' && digit_before && i + 1 < text.size()) {
      digit_before = false;
      continue;
    }
    if (!IsDigit(c)) return Invalid(Quoted(text) + " is no whole number");
    value = value * 10 + (c - '0');
    digit_before = true;
    if (value > core::kMaxExact) return Invalid(Quoted(text) + " is too large to be counted exactly");
  }
  return value;
}

Result<Rate> ParseRate(std::string_view text) {
  if (text.empty()) return Invalid("a rate is missing: COUNT/PERIOD, e.g. 100/min; 0; or unlimited");
  if (text == "unlimited") return Rate{core::RateKind::kUnlimited, 0, {}};
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    if (!IsDigit(text[0])) {
      const std::string_view word = "unlimited";
      const bool near = !Nearest(text, &word, 1).empty();
      return Invalid(Quoted(text) + " is no rate" +
                     (near ? " (did you mean unlimited?)" : ": COUNT/PERIOD, e.g. 100/min; 0; or unlimited"));
    }
    const auto count = ParseCount(text);
    if (!count) return tl::unexpected(count.error());
    if (*count == 0) return Rate{core::RateKind::kZero, 0, {}};
    return Rate{core::RateKind::kFinite, *count, {}};
  }
  const auto count = ParseCount(text.substr(0, slash));
  if (!count) return tl::unexpected(count.error());
  const auto period = ParsePeriod(text.substr(slash + 1), true);
  if (!period) return tl::unexpected(period.error());
  if (*count == 0) return Invalid(Quoted(text) + " has count 0: write 0 to deny always");
  return Rate{core::RateKind::kFinite, *count, *period};
}

Result<Micros> ParseDuration(std::string_view text) { return ParsePeriod(text, false); }

std::string FormatDuration(Micros duration) {
  const Unit* best = &kUnits[0];
  for (const Unit& unit : kUnits) {
    if (duration.count % unit.us == 0 && duration.count != 0) best = &unit;
  }
  std::string out;
  AppendInt(out, duration.count / best->us);
  out += best->name;
  return out;
}

std::string FormatRate(const Rate& rate) {
  if (rate.kind == core::RateKind::kUnlimited) return "unlimited";
  if (rate.kind == core::RateKind::kZero) return "0";
  std::string out;
  AppendInt(out, rate.count);
  if (rate.period.count == 0) return out;
  out += '/';
  const std::string period = FormatDuration(rate.period);
  // `1min` is written `min`.
  const bool one = period.size() > 1 && period[0] == '1' && !IsDigit(period[1]);
  return out + (one ? period.substr(1) : period);
}

}  // namespace penstock::policy
