// Tasks by the instant at which they are due, for one clock. Internal to net.
//
// Thread contract: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/time.h"

namespace penstock::net {

class TimerQueue {
 public:
  uint64_t Schedule(SteadyTime at, std::function<void()> task);
  // An id that has fired or is unknown is ignored.
  void Cancel(uint64_t id);
  // Runs what is due, in order of the instants. What a task schedules runs at the next call, even if it is due now.
  void Run(SteadyTime now);

  bool empty() const { return due_.empty(); }
  // Precondition: not empty.
  SteadyTime next() const { return {due_.begin()->first.first}; }

 private:
  // Invariant: both maps hold the same timers.
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>>
      due_;  // by instant, then in order of scheduling
  std::unordered_map<uint64_t, int64_t> instants_;
  uint64_t next_id_ = 1;
};

}  // namespace penstock::net
