// Rates, counts and durations as people write them: `100/min`, `5/10s`, `1_000_000/30d`, `0`, `unlimited`, `20ms`.
// Pure functions; what is wrong comes back as one sentence that names the nearest valid word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "core/params.h"

namespace penstock::policy {

struct Rate {
  core::RateKind kind = core::RateKind::kFinite;
  int64_t count = 0;
  Micros period;  // 0: a count alone, which only a calendar window takes

  friend bool operator==(const Rate&, const Rate&) = default;
};

// `COUNT/[N]UNIT` with the units us ms s min h d w; `0`; `unlimited`; a count alone (period 0).
Result<Rate> ParseRate(std::string_view text);

// A positive or zero whole number at most core::kMaxExact; single underscores may stand between digits.
Result<int64_t> ParseCount(std::string_view text);

// `NUNIT`, e.g. `20ms` or `1_000s`; more than zero, at most core::kMaxExact microseconds.
Result<Micros> ParseDuration(std::string_view text);

// The shortest exact way to write a duration: 90s, 1min, 1500us.
std::string FormatDuration(Micros duration);
// As a policy writes it: 100/min, 5/10s, 0, unlimited; a count alone without period.
std::string FormatRate(const Rate& rate);

}  // namespace penstock::policy
