// What the parts of a Redis session ask of it, and what they count.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "engine/engine.h"
#include "engine/redis/script_call.h"

namespace penstock::engine::redis {

class Asker {
 public:
  virtual ~Asker() = default;
  // Asks the one server that has all of the group's buckets, which are in `slot`; the sink hears later, on this loop,
  // never inside.
  virtual void Ask(Batch& batch, Group& group, int32_t slot, SteadyTime deadline, Sink& sink) noexcept = 0;
  // Takes a permit that is asked for no longer out of the bucket's queue, where it stands in it.
  virtual void LeaveQueue(const Hash128& permit, const Hash128& bucket) noexcept = 0;
};

enum class UndoFate : uint8_t {
  kDone,
  kDropped,  // a bucket has a newer version than the charge, which stays: asking again changes nothing
  kNotRun,
  kMayHaveRun,
};

class UndoAsker {
 public:
  virtual ~UndoAsker() = default;
  // Sends what takes these charges back, all in `slot`; UndoQueue::Answered(number) comes later, never inside.
  virtual void AskUndo(uint64_t number, int32_t slot, SteadyTime deadline) noexcept = 0;
};

// Written by every loop, read by any thread.
struct Counters {
  std::atomic<uint64_t> undone{0};     // requests whose charges were taken back
  std::atomic<uint64_t> undo_lost{0};  // given up: the charge stands although its request was refused
  std::atomic<uint64_t> late_replies{0};
  std::atomic<uint64_t> foreign{0};  // answers that met what is not ours under a bucket's key
  std::atomic<uint64_t> newer{0};    // … a layout that this build does not know
  std::atomic<uint64_t> broken{0};   // … a script and the rules that did not agree: our own fault
  std::atomic<uint64_t> full{0};
  std::atomic<uint64_t> stale{0};
  std::atomic<uint64_t> saturated{0};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> decisions{0};
  std::atomic<uint64_t> reclaimed{0};  // permits counted out because their lease had run out
  std::atomic<uint64_t> spread{0};     // requests whose buckets stand in several slots
};

}  // namespace penstock::engine::redis
