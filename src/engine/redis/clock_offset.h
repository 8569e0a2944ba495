// How far a server's clock is ahead of our monotonic one: the largest difference seen in the last ten seconds (rule
// E10). A command's `not_after` in the server's time is its deadline plus this.
//
// Thread contract: one event loop's thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/time.h"

namespace penstock::engine::redis {

class ClockOffset {
 public:
  // A reply said `engine` and was read at `received`.
  void Note(EngineTime engine, SteadyTime received) {
    const int64_t second = received.us / 1'000'000;
    Cell& cell = cells_[static_cast<size_t>(second) % kSeconds];
    const int64_t offset = engine.us - received.us;
    cell = cell.second == second ? Cell{second, std::max(cell.offset, offset)} : Cell{second, offset};
    last_ = offset;
    newest_ = std::max(newest_, second);
  }
  bool known() const { return newest_ != kNever; }
  // The engine's instant that is surely not before `at`. Precondition: known().
  EngineTime Latest(SteadyTime at) const {
    int64_t most = last_;
    for (const Cell& cell : cells_) {
      if (cell.second != kNever && cell.second > newest_ - kSeconds) most = std::max(most, cell.offset);
    }
    return {at.us + most};
  }
  // The engine's time at `at` as the last reply had it.
  EngineTime Estimate(SteadyTime at) const { return {at.us + last_}; }

 private:
  static constexpr int64_t kSeconds = 10;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  struct Cell {
    int64_t second = kNever;
    int64_t offset = 0;
  };
  std::array<Cell, kSeconds> cells_{};
  int64_t newest_ = kNever;
  int64_t last_ = 0;
};

}  // namespace penstock::engine::redis
