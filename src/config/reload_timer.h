// When a change of the policy's files should be read: after the last of a burst of events and a while of quiet. Pure:
// it is told what happened and what time it is.
//
// Thread contract: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace penstock::config {

enum class FileEvent : uint8_t {
  kComplete,  // written and closed, moved, deleted, linked, or events were lost: there is something to read
  kTouched,   // being written: what is pending waits, but nothing begins by it
};

class ReloadTimer {
 public:
  static constexpr Micros kQuiet = Millis(200);
  // A file that is written without a pause is read all the same, this long after the first complete event.
  static constexpr Micros kPatience = Seconds(5);

  void OnEvent(FileEvent event, SteadyTime now) {
    if (event == FileEvent::kTouched && !deadline_) return;
    if (!deadline_) latest_ = now + kPatience;
    deadline_ = std::min(now + kQuiet, latest_);
  }

  std::optional<SteadyTime> deadline() const { return deadline_; }

  // Whether it is time to read; true once a burst.
  bool TakeDue(SteadyTime now) {
    if (!deadline_ || now < *deadline_) return false;
    deadline_.reset();
    return true;
  }

 private:
  // latest_ counts while deadline_ is set.
  std::optional<SteadyTime> deadline_;
  SteadyTime latest_;
};

}  // namespace penstock::config
