// Writing JSON by hand: the one thing that needs care is a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

// Appends `text` in quotes, escaped by RFC 8259. Bytes that are no UTF-8 become U+FFFD: a key may hold anything, the
// document must stay valid.
void AppendJsonString(std::string& out, std::string_view text);

// `"name":`, with a comma in front unless it is the first of its object; and the same with its value.
void AppendJsonName(std::string& out, std::string_view name);
void AppendJsonField(std::string& out, std::string_view name, std::string_view value);
void AppendJsonField(std::string& out, std::string_view name, int64_t value);

}  // namespace penstock
