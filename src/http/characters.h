// Classes of characters of RFC 9110, as tables: a look-up a byte.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace penstock::http {

namespace detail {
constexpr std::array<bool, 256> TokenTable() {
  std::array<bool, 256> table{};
  for (size_t c = '0'; c <= '9'; ++c) table[c] = true;
  for (size_t c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr std::array<bool, 256> ControlTable() {
  std::array<bool, 256> table{};
  for (size_t c = 0; c < 0x20; ++c) table[c] = c != '\t';
  table[0x7f] = true;
  return table;
}
inline constexpr auto kToken = TokenTable();
inline constexpr auto kControl = ControlTable();
}  // namespace detail

// May stand in a method or a header name.
constexpr bool IsTokenCharacter(char c) { return detail::kToken[static_cast<unsigned char>(c)]; }

constexpr bool IsToken(std::string_view text) {
  for (const char c : text) {
    if (!IsTokenCharacter(c)) return false;
  }
  return !text.empty();
}

// May not stand in a header value: all control characters but the tab.
constexpr bool IsControl(char c) { return detail::kControl[static_cast<unsigned char>(c)]; }

constexpr bool IsHeaderValue(std::string_view value) {
  for (const char c : value) {
    if (IsControl(c)) return false;
  }
  return true;
}

}  // namespace penstock::http
