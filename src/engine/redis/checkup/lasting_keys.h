// The keys that Penstock makes without a time to live (rule E9): the registered limits.
//
// Thread contract: pure function.
#pragma once

#include <string_view>

namespace penstock::checkup {

bool IsLastingKey(std::string_view prefix, std::string_view key);

}  // namespace penstock::checkup
