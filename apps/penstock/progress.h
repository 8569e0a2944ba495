// A progress bar on stderr, where that is a terminal; nothing where it is not.
//
// Thread contract: one thread.
#pragma once

#include <string>
#include <string_view>

namespace penstock::app {

class Progress {
 public:
  explicit Progress(std::string_view what);
  ~Progress();  // takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share` from 0 to 1; `note` is printed behind the bar. Redraws at most ten times a second.
  void Show(double share, std::string_view note);

 private:
  const std::string what_;
  const bool terminal_;
  int64_t shown_at_ms_ = 0;
};

}  // namespace penstock::app
