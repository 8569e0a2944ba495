// The fleet's heartbeat: every second each node writes itself into one list in the store, by the store's clock, and
// hears how many there are and which of them it is.
//
// The number is the largest of the last beats, so that it does not shrink before every node has had the time to be
// seen again (after an outage the first to come back finds an empty list); while it does not agree with the newest beat
// this node has no index. In an outage all stays as it was.
//
// Thread contract: FleetBook any thread; FleetBeat one event loop's thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "engine/fleet.h"
#include "engine/redis/exchange.h"
#include "engine/redis/script.h"
#include "engine/redis/topology.h"

namespace penstock::engine::redis {

class FleetBook final : public FleetView {
 public:
  static constexpr size_t kIdBytes = 16;
  // The node counts in no list for longer than this without a beat (lua/fleet.lua): 3 s, one beat a second.
  static constexpr size_t kBeatsKept = 5;
  static constexpr int kBeatsToBeKnown = 2;

  // A process is a node: its id is random.
  FleetBook();

  Fleet fleet() const override EXCLUDES(mutex_);
  // The store said, after one more beat of this node. A number that cannot be is not believed.
  void Note(int64_t nodes, int64_t index) EXCLUDES(mutex_);

  std::string_view id() const { return id_; }
  // One loop of the process beats. False: another one does.
  bool TakeSeat() { return !taken_.exchange(true); }
  void LeaveSeat() { taken_.store(false); }

 private:
  std::string id_;
  std::atomic<bool> taken_{false};
  mutable Mutex mutex_;
  std::array<uint32_t, kBeatsKept> nodes_ GUARDED_BY(mutex_){};  // of the last beats, a ring; 0: not yet
  uint64_t beats_ GUARDED_BY(mutex_) = 0;
  uint32_t index_ GUARDED_BY(mutex_) = 0;  // in the newest beat
};

// Beats for its process if no other loop does. Must outlive the topology that it was started with.
class FleetBeat final : private Exchange {
 public:
  static constexpr Micros kPause = Seconds(1);
  static constexpr Micros kTimeout = Millis(500);

  // `script` is ScriptKind::kFleet's. All must outlive it.
  FleetBeat(FleetBook& book, Timer& timer, const Clock& clock, std::string_view prefix, const Script& script);
  ~FleetBeat() override { Stop(); }

  void Start(Topology& topology);
  // No more beats. Before the topology goes.
  void Stop();

 private:
  void Beat();

  std::string_view command() const noexcept override { return command_; }
  const Script* script() const noexcept override { return &script_; }
  void Expired() noexcept override {}
  void Done(const Reply& reply) noexcept override;

  FleetBook& book_;
  Timer& timer_;
  const Clock& clock_;
  const Script& script_;
  std::string command_;
  int32_t slot_of_key_ = kNoSlot;
  Topology* topology_ = nullptr;  // null: stopped
  Timer::Id timer_id_ = 0;
  bool seated_ = false;
  bool in_flight_ = false;
};

}  // namespace penstock::engine::redis
