// What this process has used of its processors.
#pragma once

#include <sys/resource.h>

namespace penstock {

inline double CpuMicros() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto micros = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return micros(used.ru_utime) + micros(used.ru_stime);
}

}  // namespace penstock
