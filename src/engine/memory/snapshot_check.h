// Whether what a snapshot says makes sense, and what of it still holds. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/operation.h"
#include "core/params.h"
#include "engine/memory/holder_record.h"

namespace penstock::engine::snapshot {

constexpr bool InRange(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

struct Bucket {
  Hash128 name;
  core::BucketState state;
  std::vector<core::LogRun> runs;
  std::vector<KnownHolder> holders;  // names point into the payload
};

// Parameters are as good as a policy's when the compiler makes the same of what they were written as.
bool Valid(const core::LimitParams& params);
bool Valid(const core::LimitParams& params, const Bucket& bucket);
// What was used in the future was used just now (rule E5), and no lease is longer than the limit's.
void ClampToNow(const core::LimitParams& params, EngineTime now, Bucket& bucket);
// Whether it is the same as an absent one.
bool IsIdle(const core::LimitParams& params, EngineTime now, const Bucket& bucket);

}  // namespace penstock::engine::snapshot
