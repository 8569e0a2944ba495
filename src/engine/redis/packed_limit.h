// A limit as the scripts read it, and a bucket as they write it: little-endian, every number a double (Lua's only
// number, exact to 2^53). lua/README.md has the tables.
//
// Thread contract: pure data.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/limit.h"
#include "core/operation.h"
#include "core/permit.h"

namespace penstock::engine::redis {

static_assert(std::endian::native == std::endian::little, "numbers go into commands as they stand");

// The layout that this build reads and writes; every value that it stores begins with this byte.
inline constexpr uint8_t kLayout = 1;

inline void PutDouble(char* out, int64_t value) {
  const auto number = static_cast<double>(value);
  std::memcpy(out, &number, sizeof number);
}
// A peer's bytes: what is no number of ours (a fraction, a NaN, beyond 2^53) comes out as some number within 2^53.
inline int64_t GetDouble(const char* in) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  double number = 0;
  std::memcpy(&number, in, sizeof number);
  return number >= -kMost && number <= kMost ? static_cast<int64_t>(number) : 0;
}

// Puts a number behind what stands there, in its own bytes.
template <class Number>
requires std::is_arithmetic_v<Number>
void Append(std::string& out, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}
inline void AppendDouble(std::string& out, int64_t value) { Append(out, static_cast<double>(value)); }

struct PackedLimit {
  static constexpr size_t kBytes = 76;
  std::array<char, kBytes> bytes{};

  PackedLimit() = default;
  explicit PackedLimit(const core::Limit& limit);
  // Precondition: kBytes bytes.
  explicit PackedLimit(std::string_view packed) { std::memcpy(bytes.data(), packed.data(), kBytes); }

  // The edges of a calendar window, which belong to a call and not to the limit.
  void SetEdges(const core::WindowBoundaries& edges);
  core::WindowBoundaries edges() const;

  std::string_view view() const { return {bytes.data(), kBytes}; }
  // Puts parameters and version into the limit: all of them that decisions need. False: these are no limit's bytes.
  bool Unpack(core::Limit& limit) const;
};

// The one holder that a script names of all: by whose expiry a refused request fits. What he stands for weighs enough.
class MarkedHolder final : public core::HolderOrder {
 public:
  void Set(EngineTime expires_at) {
    holder_ = {.id = {}, .expires_at = expires_at, .weight = core::kMaxExact};
  }
  const core::Holder* Next(const core::Holder* after) const override {
    return after == nullptr && holder_.expires_at.us > 0 ? &holder_ : nullptr;
  }

 private:
  core::Holder holder_;
};

// What a view of a found bucket points into.
struct FoundRoom {
  core::LimitParams params;
  std::array<core::LogRun, 2> runs;
  MarkedHolder holders;
  bool queue_full = false;  // permits: nobody more may wait
};

// Reads a found bucket from the front of `bytes`, drops it there, and shows it as core must see it who decides by
// `limit`: one written under other parameters of the same version counts as a version older. For a log there are at
// most two runs, which stand for all that it keeps. False: the bytes are not such a bucket.
bool TakeFound(const core::Limit& limit, std::string_view& bytes, FoundRoom& room, core::BucketView& view);

}  // namespace penstock::engine::redis
