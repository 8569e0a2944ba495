// Writing JSON by hand: the one thing that needs care is a string.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// Appends `text` in quotes, escaped by RFC 8259. Bytes that are no UTF-8 become U+FFFD: a key may hold anything, the
// document must stay valid.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace penstock
