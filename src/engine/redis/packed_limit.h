// A limit as the scripts read it, and a bucket as they write it: little-endian, every number a double (Lua's only
// number, exact to 2^53). lua/README.md has the tables.
//
// Thread contract: pure data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/limit.h"
#include "core/operation.h"

namespace penstock::engine::redis {

// The layout that this build reads and writes; every value that it stores begins with this byte.
inline constexpr uint8_t kLayout = 1;

// Doubles only: the bytes are sent as they stand.
void PutDouble(char* out, int64_t value);
int64_t GetDouble(const char* in);

struct PackedLimit {
  static constexpr size_t kBytes = 76;
  std::array<char, kBytes> bytes{};

  PackedLimit() = default;
  explicit PackedLimit(const core::Limit& limit);
  // The edges of a calendar window, which belong to a call and not to the limit.
  void SetEdges(const core::WindowBoundaries& edges);
  core::WindowBoundaries edges() const;

  std::string_view view() const { return {bytes.data(), kBytes}; }
  // Puts parameters and version into the limit: all that decisions need of them. False: no limit's bytes.
  bool Unpack(core::Limit& limit) const;
};

// A bucket that a script found, or leaves behind. For a log `runs` has at most two runs that stand for all it keeps:
// every verdict comes out as by the whole log (script_call.cc says why).
struct FoundBucket {
  bool present = false;
  core::Version version = 0;
  core::LimitParams params;  // what of them the state depends on; the others are zero
  core::BucketState state{};
  std::array<core::LogRun, 2> runs{};
  uint8_t run_count = 0;
};

// Reads one from the front of `bytes` and drops it there. None: the bytes are not such a bucket.
std::optional<FoundBucket> TakeFound(core::Algorithm algorithm, std::string_view& bytes);

}  // namespace penstock::engine::redis
