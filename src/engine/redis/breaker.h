// The circuit breaker of one link, and the pace of its attempts to come back. While it is open nobody waits for the
// server.
//
// The pace goes back to its beginning only when a command was answered in time: a server that can be connected to and
// answers nothing is not tried over and over.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "engine/redis/backoff.h"

namespace penstock::engine::redis {

class Breaker {
 public:
  struct Settings {
    int failures = 5;  // in a row that open it
    Micros least{};    // between two attempts; doubles up to `most`
    Micros most{};
    uint64_t seed = 0;  // of the jitter
  };
  explicit Breaker(const Settings& settings)
      : failures_to_open_(settings.failures),
        delays_({.least = settings.least, .most = settings.most, .jitter = 2, .seed = settings.seed}) {}

  bool closed() const { return closed_; }
  // A command was answered in time.
  void Answered() {
    failures_ = 0;
    delays_.Reset();
  }
  // A time-out, or a server that says that it serves nobody. True: this one opened it.
  bool Failed() {
    if (!closed_ || ++failures_ < failures_to_open_) return false;
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
  Micros NextDelay() { return delays_.Next(); }

 private:
  const int failures_to_open_;
  Backoff delays_;  // since the last answer
  bool closed_ = true;
  int failures_ = 0;  // in a row
};

}  // namespace penstock::engine::redis
