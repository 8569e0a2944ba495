#include "json_fields.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace penstock::app {

std::string Text(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return "-";
  if (value->is_string()) return std::string(value->as_string());
  if (const int64_t* const number = value->if_int64()) return std::to_string(*number);
  return boost::json::serialize(*value);
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
