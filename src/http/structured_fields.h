// The headers that tell a caller its limits: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers,
// structured fields of RFC 9651), Retry-After, and the older X-RateLimit-*. Waits are rounded up to seconds (rule E3).
//
//   RateLimitList list(writer.OpenHeader("RateLimit-Policy"));
//   list.Policy({.name = "per-user", .quota = 100, .window = Seconds(60)});
//   list.Policy({.name = "burst", .quota = 20, .window = Seconds(1)});
//   writer.CloseHeader();   // "per-user";q=100;w=60, "burst";q=20;w=1
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "http/response_writer.h"

namespace penstock::http {

// Appends an sf-string. A character that may not stand in one (outside printable ASCII) becomes '?'.
void AppendFieldString(std::string& out, std::string_view text);

struct PolicyItem {
  std::string_view name = {};
  int64_t quota = 0;
  Micros window = {};          // time to refill the quota; zero leaves w out
  std::string_view unit = {};  // qu; empty or "requests" leaves it out
};

struct LimitItem {
  std::string_view name = {};
  int64_t remaining = 0;
  std::optional<Micros> wait = {};  // t: until it may be tried again when refused, else until no use is left
};

// Writes the items of one header; integers beyond 15 digits, which no structured field may have, are held at that.
class RateLimitList {
 public:
  explicit RateLimitList(std::string& out) : out_(out) {}

  void Policy(const PolicyItem& item);
  void Limit(const LimitItem& item);

 private:
  void Begin(std::string_view name);

  std::string& out_;
  bool empty_ = true;
};

void WriteRetryAfter(ResponseWriter& writer, Micros wait);

// X-RateLimit-Limit, -Remaining and -Reset (seconds from now).
struct PlainRateLimit {
  int64_t limit = 0;
  int64_t remaining = 0;
  Micros reset = {};
};
void WritePlainRateLimit(ResponseWriter& writer, const PlainRateLimit& limit);

}  // namespace penstock::http
