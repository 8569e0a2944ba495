// The log: one line an event, to stderr, with a level.
//
// Thread contract: any thread. A write may block: keep it off the decision path.
#pragma once

#include <string_view>

namespace penstock {

enum class LogLevel : unsigned char { kDebug, kInfo, kWarning, kError };

void SetLogLevel(LogLevel least);
void Log(LogLevel level, std::string_view message);

}  // namespace penstock
