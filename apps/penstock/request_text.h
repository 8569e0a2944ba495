// What the commands say to a server: attributes as JSON and as a query, from `name=value` on the command line.
//
// Thread contract: plain functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::app {

// {"user":"42"}; kInvalid where one is not written as name=value.
Result<void> AppendAttributes(std::string& json, std::span<const std::string> attributes);

// Percent-encoded for a query or a path.
void AppendEscaped(std::string& target, std::string_view text);

// &name=value, or ?name=value where the target has no query yet.
void AppendQuery(std::string& target, std::string_view name, std::string_view value);
Result<void> AppendQuery(std::string& target, std::span<const std::string> attributes);

}  // namespace penstock::app
