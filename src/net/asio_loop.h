// Asio's part of a loop. Internal to net: the only header with Asio in it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "net/limits.h"

namespace penstock::net {

struct LoopImpl {
  explicit LoopImpl(const Clock& c) : clock(c) {}

  // Fires what is due and arms the timer for the next.
  void RunTimers();
  void ArmTimer();

  // One thread runs it: the hint spares Asio its wake-ups of others.
  boost::asio::io_context io{1};
  const Clock& clock;
  boost::asio::steady_timer timer{io};
  // Invariant: both maps hold the same timers.
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>>
      due;  // by instant, then by order of scheduling
  std::unordered_map<uint64_t, int64_t> instants;
  uint64_t next_id = 1;
};

inline std::chrono::microseconds ToChrono(Micros d) { return std::chrono::microseconds(d.count); }

}  // namespace penstock::net
