#include "base/hash.h"

#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/random.h"

namespace penstock {

HashKey::HashKey(const Seed& seed) : seed_(seed) {
  static_assert(kSecretBytes >= XXH3_SECRET_SIZE_MIN);
  XXH3_generateSecret(secret_.data(), secret_.size(), seed_.data(), seed_.size());
}

HashKey HashKey::Random() {
  Seed seed;
  SecureRandomBytes(seed);
  return HashKey(seed);
}

Hash128 HashKey::Hash(std::string_view bytes) const {
  const XXH128_hash_t h = XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret_.data(), secret_.size());
  return {h.high64, h.low64};
}

Hash128 HashKey::HashJoined(std::span<const std::string_view> parts) const {
  thread_local std::string joined;  // keeps its capacity: no allocation a call
  joined.clear();
  for (std::string_view part : parts) {
    const uint64_t length = part.size();
    joined.append(reinterpret_cast<const char*>(&length), sizeof length);
    joined.append(part);
  }
  return Hash(joined);
}

uint64_t Checksum64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace penstock
