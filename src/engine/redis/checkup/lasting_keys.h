// The keys of Penstock's that are no buckets of rates and no request ids.
//
// Thread contract: pure functions.
#pragma once

#include <string_view>

namespace penstock::checkup {

// Made without a time to live (rule E9): the registered limits, and the markers of strict limits.
bool IsLastingKey(std::string_view prefix, std::string_view key);
// Whose value begins with no layout byte: those, the list of the fleet's nodes, and buckets of permits, which are sets.
bool IsBookKey(std::string_view prefix, std::string_view key);

}  // namespace penstock::checkup
