// The circuit breaker of one link, and the pace of its attempts to come back. While it is open nobody waits for the
// server.
//
// The pace goes back to its beginning only when a command was answered in time: a server that can be connected to and
// answers nothing is not tried over and over.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/time.h"

namespace penstock::engine::redis {

class Breaker {
 public:
  struct Settings {
    int failures = 5;  // in a row that open it
    Micros least{};    // between two attempts; doubles up to `most`
    Micros most{};
    uint64_t seed = 0;  // of the jitter
  };
  explicit Breaker(const Settings& settings) : settings_(settings), random_(settings.seed) {}

  bool closed() const { return closed_; }
  // A command was answered in time.
  void Answered() {
    failures_ = 0;
    attempts_ = 0;
  }
  // A time-out, or a server that says that it serves nobody. True: this one opened it.
  bool Failed() {
    if (!closed_ || ++failures_ < settings_.failures) return false;
    Open();
    return true;
  }
  void Open() {
    closed_ = false;
    failures_ = 0;
  }
  // An attempt has succeeded.
  void Close() {
    closed_ = true;
    failures_ = 0;
  }
  // How long after this attempt began the next one begins, at the earliest: half of it fixed, half by chance, so that a
  // fleet does not come back in one instant.
  Micros NextDelay();

 private:
  const Settings settings_;
  Random random_;
  bool closed_ = true;
  int failures_ = 0;  // in a row
  int attempts_ = 0;  // since the last answer
};

}  // namespace penstock::engine::redis
