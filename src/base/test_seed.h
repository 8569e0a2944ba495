// For tests only: the seed of a random test, the same on every run unless PENSTOCK_SEED says another; printed, so
// that a failure can be repeated.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace penstock {

inline uint64_t TestSeed() {
  const char* given = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'129;
  std::printf("PENSTOCK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace penstock
