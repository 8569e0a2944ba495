// An ad hoc limit as a caller writes it in `limit`: the policy's words for a rate, without the policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "core/params.h"

namespace penstock::api {

struct AdHocText {
  std::string_view rate;  // 100/min
  std::optional<int64_t> burst;
  std::string_view algorithm;  // empty = token_bucket
  std::string_view from;       // empty, or first_request (fixed_window)
};

// The rate as a spec; whether it can be exact is for core::CompileRate to say.
Result<core::RateSpec> ReadAdHocLimit(const AdHocText& text);

}  // namespace penstock::api
