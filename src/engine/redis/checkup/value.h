// A reply that owns its bytes, and what the replies of administration say, as maps.
//
// Thread contract: plain values; pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resp/reply_parser.h"

namespace penstock::checkup {

struct Value {
  resp::ReplyType type = resp::ReplyType::kNull;
  int64_t integer = 0;
  std::string text;
  std::vector<Value> items;

  bool is_error() const { return type == resp::ReplyType::kError; }
  bool is_null() const { return type == resp::ReplyType::kNull; }
  bool is_integer() const { return type == resp::ReplyType::kInteger; }
  // The first word of an error: NOPERM, NOSCRIPT, ERR.
  std::string_view code() const;
  // The item at that place, or a null where the server sent fewer: no reply is believed to have a shape.
  const Value& At(size_t place) const;
  // An integer, or text that is one.
  std::optional<int64_t> Number() const;
};

// Copies a parsed reply.
Value Own(std::span<const resp::ReplyNode> nodes);

using Fields = std::map<std::string, std::string, std::less<>>;

// "# Section", "name:value" lines (INFO, CLUSTER INFO).
Fields ParseInfo(std::string_view text);
// name, value, name, value (CONFIG GET, SENTINEL MASTER, ACL GETUSER; a map too). What is neither text nor number is
// left out.
Fields ParsePairs(const Value& value);
// a=1,b=2 (INFO's slave0 lines)
Fields ParseAttributes(std::string_view text);

// Empty where there is none.
std::string_view Text(const Fields& fields, std::string_view name);
std::optional<int64_t> Number(const Fields& fields, std::string_view name);

}  // namespace penstock::checkup
