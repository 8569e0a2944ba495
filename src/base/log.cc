#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <ctime>
#include <string>

namespace penstock {
namespace {

std::atomic<LogLevel> least_level{LogLevel::kInfo};

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

}  // namespace

void SetLogLevel(LogLevel least) { least_level = least; }

void Log(LogLevel level, std::string_view message) {
  if (level < least_level.load(std::memory_order_relaxed)) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  char stamp[40];
  const size_t length = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ ", &utc);
  std::string line(stamp, length);
  line += Name(level);
  line += ' ';
  for (char c : message) line += (c == '\n' || c == '\r') ? ' ' : c;  // one event, one line
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace penstock
