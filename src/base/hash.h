// Keyed 128-bit hashing (XXH3 with a secret derived from 32 random bytes): an outsider who does not know the key
// cannot aim at a shard or make two names meet.
//
// Thread contract: HashKey is immutable after construction.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
};

class HashKey {
 public:
  static constexpr size_t kSeedBytes = 32;
  using Seed = std::array<unsigned char, kSeedBytes>;

  explicit HashKey(const Seed& seed);
  static HashKey Random();

  Hash128 Hash(std::string_view bytes) const;
  // The name of a list of parts: every part's length counts, so ("a_b") and ("a", "b") never meet.
  Hash128 HashParts(std::span<const std::string_view> parts) const {
    return parts.size() == 1 ? Hash(parts[0]) : HashJoined(parts);
  }
  const Seed& seed() const { return seed_; }

 private:
  static constexpr size_t kSecretBytes = 192;
  Hash128 HashJoined(std::span<const std::string_view> parts) const;

  Seed seed_;
  std::array<unsigned char, kSecretBytes> secret_;
};

// Both sides are keyed hashes; the result names the pair.
constexpr Hash128 Combine(const Hash128& scope, const Hash128& name) {
  return {scope.high ^ name.high, scope.low ^ name.low};
}

// Unkeyed, and the same in every build: for checksums of our own files, and for names that nodes share.
uint64_t Checksum64(std::string_view bytes);

}  // namespace penstock
