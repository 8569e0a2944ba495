// Whether two short texts are equal, without a call: names are compared several times a decision.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace penstock::service {

template <class Word>
inline bool SameWord(const char* a, const char* b) {
  Word x;
  Word y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return x == y;
}

inline bool SameText(std::string_view a, std::string_view b) {
  const size_t size = a.size();
  if (size != b.size()) return false;
  const char* const p = a.data();
  const char* const q = b.data();
  if (size > 16) return std::memcmp(p, q, size) == 0;
  // Two words that overlap cover the text.
  if (size >= 8) return SameWord<uint64_t>(p, q) && SameWord<uint64_t>(p + size - 8, q + size - 8);
  if (size >= 4) return SameWord<uint32_t>(p, q) && SameWord<uint32_t>(p + size - 4, q + size - 4);
  return size == 0 || (p[0] == q[0] && p[size / 2] == q[size / 2] && p[size - 1] == q[size - 1]);
}

}  // namespace penstock::service
