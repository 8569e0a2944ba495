// A limit's parameters in the exact integers that decisions use (rule E2), and their derivation from what a person
// writes. Pure data: trivially copyable, comparable, free of names and clocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace penstock::core {

enum class Algorithm : uint8_t { kTokenBucket, kFixedWindow, kSlidingWindow, kSlidingLog, kPermits };

// Where a fixed window begins. The calendar kinds get their edges from the caller (operation.h), because a pure
// function has no time-zone library.
enum class WindowKind : uint8_t { kEpoch, kFirstRequest, kDay, kWeek, kMonth, kYear };

// As a policy writes them.
std::string_view ToString(Algorithm algorithm);
std::string_view ToString(WindowKind window);

constexpr bool IsCalendar(WindowKind kind) { return kind >= WindowKind::kDay; }

enum class RateKind : uint8_t {
  kFinite,
  kZero,       // denies always (`never`)
  kUnlimited,  // allows always and stores nothing
};

// Largest integer that a double (Lua's only number) and we both hold exactly with room for one addition: every
// product in a decision stays at or below it.
inline constexpr int64_t kMaxExact = int64_t{1} << 52;
inline constexpr Micros kMinLease = Millis(100);
inline constexpr Micros kMaxLease = Seconds(86'400);
// A sliding log keeps at most this many runs, and its count may not be larger.
inline constexpr int64_t kMaxLogCount = 10'000;

// As written in a policy or by an ad hoc caller.
struct RateSpec {
  Algorithm algorithm = Algorithm::kTokenBucket;
  WindowKind window = WindowKind::kEpoch;  // fixed windows only
  RateKind kind = RateKind::kFinite;
  int64_t count = 0;               // `count` per `period`
  Micros period{};                 // calendar kinds: ignored; permits: the lease
  std::optional<int64_t> burst{};  // token buckets only; default: count
};

// Invariant (token bucket): drain and unit_cost are coprime, capacity * unit_cost + drain * (60 s in ticks) and
// capacity * unit_cost stay within kMaxExact, tick divides period.
// Invariant (sliding window): 2 * capacity * (period in ticks) <= kMaxExact.
struct LimitParams {
  Algorithm algorithm = Algorithm::kTokenBucket;
  WindowKind window = WindowKind::kEpoch;
  RateKind kind = RateKind::kFinite;
  // What the largest single cost may be: burst, the count of a window, the number of permits; 0 for kZero.
  int64_t capacity = 0;
  int64_t count = 0;  // the rate as written
  Micros period{};    // as written; calendar kinds: the nominal length (30 and 365 days); permits: the lease
  Micros tick{1};     // 1 us, 1 ms or 1 s: the finest that keeps every product exact
  int64_t drain = 0;  // c: units that drain each tick (token bucket)
  int64_t unit_cost = 0;  // p: units that one token costs (token bucket)

  friend bool operator==(const LimitParams&, const LimitParams&) = default;
};

// The parameters for a spec, or why it cannot be exact: count and period positive, burst 1 or more, all products
// within kMaxExact, a sliding log's count at most kMaxLogCount. Permits: count is their number, period
// the lease, kMinLease to kMaxLease.
Result<LimitParams> CompileRate(const RateSpec& spec);

}  // namespace penstock::core
