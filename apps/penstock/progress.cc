#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace penstock::app {
namespace {

constexpr int kWidth = 30;
constexpr int64_t kRedrawMs = 100;

int64_t NowMs() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Progress::Progress(std::string_view what) : what_(what), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

void Progress::Show(double share, std::string_view note) {
  if (!terminal_) return;
  const int64_t now = NowMs();
  if (now - shown_at_ms_ < kRedrawMs) return;
  shown_at_ms_ = now;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kWidth);
  std::string bar(static_cast<size_t>(filled), '#');
  bar.append(static_cast<size_t>(kWidth - filled), '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %.*s", what_.c_str(), bar.c_str(), static_cast<int>(note.size()),
               note.data());
}

}  // namespace penstock::app
