// Appending numbers and text to a byte string without a locale, a format string or a temporary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

void AppendInt(std::string& out, int64_t value);

// Two hexadecimal digits a byte, lower case.
void AppendHex(std::string& out, unsigned char byte);
void AppendHex(std::string& out, std::span<const unsigned char> bytes);

// The text's length, a colon, the text: appended one after the other, different texts never give the same bytes.
void AppendSized(std::string& out, std::string_view text);

// Decimal digits with an optional leading minus; nothing else, no white space, no overflow.
std::optional<int64_t> ParseInt(std::string_view text);

// Whether `given` is the secret, in a time that depends on the length of `given` alone, so that a peer cannot feel its
// way to a token byte by byte.
bool ConstantTimeEquals(std::string_view secret, std::string_view given);

// The candidate with the smallest edit distance to `word`, if it is near enough to be a likely slip (at most a third
// of the word's length, at least 2); empty otherwise. For "did you mean" in errors.
std::string_view Nearest(std::string_view word, const std::string_view* candidates, size_t count);

}  // namespace penstock
