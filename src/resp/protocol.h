// The two versions of RESP, and the scanner of its length lines that requests and replies share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::resp {

enum class Protocol : uint8_t { kResp2 = 2, kResp3 = 3 };

// What a parser says of the bytes it was given.
enum class ParseStatus : uint8_t {
  kDone,      // one whole message
  kNeedMore,  // the message is not complete; call again with the same bytes and those that followed
  kError,     // the peer broke the protocol; nothing more can be read from it
};

struct ParseResult {
  ParseStatus status = ParseStatus::kNeedMore;
  // Bytes at the front that the caller drops. With kNeedMore only what was skipped (empty lines), mostly 0.
  size_t consumed = 0;
};

// Reads `[-]digits CR LF` at `cursor` and moves it behind the line; leaves it where it was if the line is
// partial or bad. No leading zeros, no plus, no overflow: a number has one spelling.
inline ParseStatus ScanInteger(const char*& cursor, const char* end, int64_t& value) {
  constexpr int kMaxDigits = 19;
  const char* p = cursor;
  if (end - p >= 3 && p[1] == '\r' && p[2] == '\n' && static_cast<unsigned char>(*p - '0') <= 9) {
    value = *p - '0';  // nearly every length on the wire has one digit
    cursor = p + 3;
    return ParseStatus::kDone;
  }
  const bool negative = p != end && *p == '-';
  if (negative) ++p;
  const char* const first = p;
  uint64_t magnitude = 0;
  for (; p != end; ++p) {
    const auto digit = static_cast<unsigned char>(*p - '0');
    if (digit > 9) break;
    if (p - first == kMaxDigits) return ParseStatus::kError;
    magnitude = magnitude * 10 + digit;  // 19 digits fit 64 bits
  }
  if (p == end) return ParseStatus::kNeedMore;
  if (p == first || *p != '\r' || (*first == '0' && p - first > 1)) return ParseStatus::kError;
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (magnitude > most) return ParseStatus::kError;
  if (p + 1 == end) return ParseStatus::kNeedMore;
  if (p[1] != '\n') return ParseStatus::kError;
  value = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  cursor = p + 2;
  return ParseStatus::kDone;
}

}  // namespace penstock::resp
