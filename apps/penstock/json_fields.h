// Fields of a server's JSON answer, for people: what is not there, or is of another kind, is said so and no mistake.
//
// Thread contract: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace boost::json {
class object;
}

namespace penstock::app {

// A string or a number as text; "-" for null and for what is not there; anything else as JSON.
std::string Text(const boost::json::object& object, std::string_view name);
// A name that a stranger may have chosen, fit for a terminal: control characters are shown as \xNN.
std::string Printable(std::string_view text);
// False where it is not true.
bool Flag(const boost::json::object& object, std::string_view name);
// 0 where it is no whole number.
int64_t Number(const boost::json::object& object, std::string_view name);

}  // namespace penstock::app
