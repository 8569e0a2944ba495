// Takes charges back that must not stand: of a request that another slot refused, and of one whose reply came after
// its caller was answered (rules E4, E10). An undo is tried again for five seconds as long as it surely did not run; one
// whose fate is unknown only where a request id keeps it from working twice, since to give back twice is worse than not
// at all. What is given up is counted.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "engine/redis/asker.h"
#include "engine/redis/script_call.h"

namespace penstock::engine::redis {

class UndoQueue {
 public:
  static constexpr Micros kKeepTrying = Seconds(5);
  static constexpr Micros kPause = Millis(50);     // between two tries
  static constexpr Micros kTimeout = Millis(500);  // of one
  static constexpr size_t kMaxPending = 100'000;   // beyond, an undo is lost at once

  // All outlive the queue.
  UndoQueue(UndoAsker& asker, Timer& timer, const Clock& clock, Counters& counters)
      : asker_(asker), timer_(timer), clock_(clock), counters_(counters) {}
  ~UndoQueue();
  UndoQueue(const UndoQueue&) = delete;
  UndoQueue& operator=(const UndoQueue&) = delete;

  // The charges of one request, all in one slot.
  void Add(std::vector<Undo> charges, int32_t slot);
  std::span<const Undo> charges(uint64_t number) const { return entries_.at(number).charges; }
  void Answered(uint64_t number, UndoFate fate);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::vector<Undo> charges;
    int32_t slot = 0;
    SteadyTime give_up;
    Timer::Id timer = 0;  // 0: being asked
  };

  void Try(uint64_t number);

  UndoAsker& asker_;
  Timer& timer_;
  const Clock& clock_;
  Counters& counters_;
  uint64_t last_number_ = 0;
  std::unordered_map<uint64_t, Entry> entries_;
};

}  // namespace penstock::engine::redis
