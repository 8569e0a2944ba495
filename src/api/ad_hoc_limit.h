// An ad hoc limit as a caller writes it in `limit`: the policy's words for a rate, without the policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "core/params.h"

namespace penstock::api {

// The shortest lease, as callers write it; the longest is kMaxLeaseMs.
inline constexpr int64_t kMinLeaseMs = core::kMinLease.count / 1'000;

struct AdHocText {
  std::string_view rate;  // 100/min; or permits
  std::optional<int64_t> permits;
  std::string_view lease;  // 30s; empty = that
  std::optional<int64_t> burst;
  std::string_view algorithm;  // empty = token_bucket
  std::string_view from;       // empty, or first_request (fixed_window)
};

// The rate as a spec; whether it can be exact is for core::CompileRate to say.
Result<core::RateSpec> ReadAdHocLimit(const AdHocText& text);

// A semaphore of the caller's own: so many permits at once, each for at most the lease.
core::RateSpec AdHocPermits(int64_t permits, Micros lease);

}  // namespace penstock::api
