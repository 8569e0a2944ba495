#include "base/bytes.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace penstock {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

void AppendHex(std::string& out, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

void AppendHex(std::string& out, std::span<const unsigned char> bytes) {
  for (const unsigned char byte : bytes) AppendHex(out, byte);
}

void AppendInt(std::string& out, int64_t value) {
  if (value >= 0 && value < 10) {
    out.push_back(static_cast<char>('0' + value));
    return;
  }
  char digits[20];
  char* const end = digits + sizeof digits;
  char* begin = end;
  uint64_t left = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  do {
    *--begin = static_cast<char>('0' + left % 10);
    left /= 10;
  } while (left != 0);
  if (value < 0) *--begin = '-';
  out.append(begin, end);
}

void AppendSized(std::string& out, std::string_view text) {
  AppendInt(out, static_cast<int64_t>(text.size()));
  out += ':';
  out += text;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool ConstantTimeEquals(std::string_view secret, std::string_view given) {
  // volatile: the compiler must not leave the loop early.
  volatile unsigned char difference = secret.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(expected ^ given[i]));
  }
  return difference == 0;
}

std::string_view Nearest(std::string_view word, const std::string_view* candidates, size_t count) {
  constexpr size_t kMaxWord = 64;  // longer words are no slips of a key we know
  if (word.size() > kMaxWord) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t distance = EditDistance(word, candidates[i]);
    if (distance < best_distance) {
      best = candidates[i];
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace penstock
