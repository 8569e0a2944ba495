#include "base/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace penstock {

void SecureRandomBytes(std::span<unsigned char> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t n = getrandom(out.data() + filled, out.size() - filled, 0);
    if (n > 0) {
      filled += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      std::abort();
    }
  }
}

uint64_t RandomSeed() {
  std::array<unsigned char, sizeof(uint64_t)> bytes{};
  SecureRandomBytes(bytes);
  uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof seed);
  return seed;
}

}  // namespace penstock
