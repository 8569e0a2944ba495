// Random numbers: a small seeded generator for tests, jitter and load (never for secrets), and the kernel's bytes
// for keys and ids.
#pragma once

#include <cstdint>
#include <span>

namespace penstock {

// splitmix64 (Steele, Lea, Flood 2014). Not thread-safe: one a thread.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(Next()) * bound) >> 64);
  }
  // Uniform in [low, high], both ends included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }

 private:
  uint64_t state_;
};

// Fills the span from the kernel; aborts the process if the kernel has none to give.
void SecureRandomBytes(std::span<unsigned char> out);
// A seed that no other process has, for jitter.
uint64_t RandomSeed();

}  // namespace penstock
