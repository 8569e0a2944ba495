#include "json_fields.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/bytes.h"

namespace penstock::app {

std::string Text(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return "-";
  if (value->is_string()) return std::string(value->as_string());
  if (const int64_t* const number = value->if_int64()) return std::to_string(*number);
  return boost::json::serialize(*value);
}

std::string Printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool high = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F, as UTF-8
    if (high) byte = static_cast<unsigned char>(text[++i]);
    if (high || byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      AppendHex(out, byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

bool Flag(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

int64_t Number(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  const int64_t* const number = value == nullptr ? nullptr : value->if_int64();
  return number == nullptr ? 0 : *number;
}

}  // namespace penstock::app
