// What connections to a Redis are called (CLIENT SETNAME), so that CLIENT LIST tells nodes with other scripts apart.
//
// Thread contract: any thread.
#pragma once

#include <string>
#include <string_view>

namespace penstock::engine::redis {

inline constexpr std::string_view kConnectionNameStem = "penstock-";

// Twelve hexadecimal digits, the same in all builds with the same scripts.
const std::string& ScriptsBuild();
// kConnectionNameStem and those.
const std::string& ConnectionName();

}  // namespace penstock::engine::redis
