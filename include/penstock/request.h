// What a caller asks: a domain, attributes, costs and options. Everything is a view: it must stay valid for the
// length of the call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock {

// One attribute of a request, e.g. {"user", "42"}. Names are compared exactly.
struct Attribute {
  std::string_view name;
  std::string_view value;
};

// A cost in one unit, e.g. {"tokens", 500}. 0 peeks, negative refunds; at most 2^31-1 either way.
struct UnitCost {
  std::string_view unit = "requests";
  int64_t cost = 1;
};

inline constexpr int64_t kMaxCost = 2'147'483'647;        // and -kMaxCost for a refund
inline constexpr int64_t kMaxWaitMs = 60'000;             // max_wait
inline constexpr int64_t kMaxSettleWithinMs = 3'600'000;  // settle_within
inline constexpr int64_t kMaxLeaseMs = 86'400'000;        // lease: a day
inline constexpr size_t kMaxHolderBytes = 128;
inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxKeyBytes = 65'536;      // all key parts of one limit together
inline constexpr size_t kMaxLimitsPerRequest = 32;  // matched by one request
inline constexpr size_t kMaxAttributesPerRequest = 64;
inline constexpr size_t kMaxUnitsPerRequest = 8;

struct CheckOptions {
  int64_t cost = 1;                       // in unit "requests"; not used when `costs` is given
  std::span<const UnitCost> costs = {};   // the costs by unit; a limit of a unit not named does not apply
  int64_t weight = 1;                     // of a permit; 1 or more
  std::chrono::milliseconds max_wait{0};  // 0 to kMaxWaitMs: pass later rather than be denied
  bool force = false;                     // always charge; the debt may pass capacity and is remembered
  bool partial = false;                   // take what is there, up to the cost
  std::string_view request_id = {};       // 1 to 128 bytes: a repeat gets the first answer; empty = none
  std::chrono::milliseconds settle_within{
      0};                        // keep the request id this long instead of 60 s; at most an hour
  std::string_view holder = {};  // name of a permit's holder, for people; at most 128 bytes
  // Of a permit, at most a day; 0 = the limit's own, never longer than that.
  std::chrono::milliseconds lease{0};
};

// One of many checks (Limiter::CheckMany).
struct Request {
  std::string_view domain = {};
  std::span<const Attribute> attributes = {};
  CheckOptions options = {};
};

}  // namespace penstock
