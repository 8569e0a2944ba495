// Names to small numbers, on the decision path: a few names are compared one by one, many are found by hash.
//
// Thread contract: immutable after Build; Find is const.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::policy {

// Of short texts that a policy's author chose or that are looked up among such: a caller may pick values, but the
// longest probe was fixed when the policy was built.
inline uint64_t HashText(std::string_view text, uint64_t seed) {
  constexpr uint64_t kFirst = 0x9E3779B97F4A7C15;
  constexpr uint64_t kSecond = 0xD6E8FEB86659FD93;
  constexpr uint64_t kThird = 0xC2B2AE3D27D4EB4F;
  __extension__ using Wide = unsigned __int128;
  const auto fold = [](uint64_t a, uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  // Multiplied apart: beside the text's own bits, seeds that differ in a bit would meet texts that do.
  uint64_t hash = (seed * kThird) ^ (text.size() * kFirst);
  const char* at = text.data();
  size_t left = text.size();
  for (; left > 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = fold(hash ^ word, kFirst);
  }
  // The last one to eight bytes without a branch a byte.
  uint64_t tail = 0;
  if (left >= 4) {
    uint32_t low;
    uint32_t high;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + left - 4, 4);
    tail = low | uint64_t{high} << 32;
  } else if (left > 0) {
    const auto byte = [at](size_t i) { return uint64_t{static_cast<unsigned char>(at[i])}; };
    tail = byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16;
  }
  return fold(hash ^ tail, kSecond);
}

class NameTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The number of the name: its first place in `names`. Names must be distinct.
  void Build(std::vector<std::string> names) {
    names_ = std::move(names);
    slots_.clear();
    if (names_.size() <= kLinear) return;
    size_t capacity = 4 * kLinear;
    while (capacity < 2 * names_.size()) capacity *= 2;
    slots_.assign(capacity, kNone);
    for (uint32_t i = 0; i < names_.size(); ++i) {
      size_t at = HashText(names_[i], 0) & (capacity - 1);
      while (slots_[at] != kNone) at = (at + 1) & (capacity - 1);
      slots_[at] = i;
    }
  }

  uint32_t Find(std::string_view name) const {
    if (slots_.empty()) {
      for (uint32_t i = 0; i < names_.size(); ++i) {
        if (names_[i] == name) return i;
      }
      return kNone;
    }
    const size_t mask = slots_.size() - 1;
    // Ends: at least half of the slots are free.
    for (size_t at = HashText(name, 0) & mask; slots_[at] != kNone; at = (at + 1) & mask) {
      if (names_[slots_[at]] == name) return slots_[at];
    }
    return kNone;
  }

  std::span<const std::string> names() const { return names_; }
  size_t size() const { return names_.size(); }

 private:
  static constexpr size_t kLinear = 8;
  // slots_ is empty (few names) or a power of two with at least half its places free.
  std::vector<std::string> names_;
  std::vector<uint32_t> slots_;
};

}  // namespace penstock::policy
