// The PermitDesk of every protocol and the library, and the decider's own way to give back what nobody heard of.
//
// What is asked for in one turn goes to the engine as one run, which answers each call by itself. A release that the
// engine could not be asked about is kept and tried again, all of them by one timer that backs off while the engine is
// away: a permit that is not given back would be held until its lease ends.
//
// Thread contract: as PermitDesk's. Construction and destruction on the loop's thread, or while it does not run.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/later.h"
#include "engine/engine.h"
#include "service/metrics.h"
#include "service/permit_desk.h"

namespace penstock::service {

class PermitDeskImpl final : public PermitDesk, private engine::PermitSink {
 public:
  static constexpr size_t kMaxRun = 1'024;    // calls that go to the engine together
  static constexpr size_t kMaxRuns = 1'024;   // under way at once; beyond, calls are `unavailable`, overload
  static constexpr size_t kMaxIdleRuns = 16;  // that keep their room
  static constexpr size_t kMaxKept = 16'384;  // releases that wait for the engine; beyond, leases end them
  static constexpr size_t kMaxRepeated =
      256;  // of them at once, while it is not known whether the engine is back
  static constexpr Micros kFirstPause = Millis(100);
  static constexpr Micros kLongestPause = Seconds(5);

  // All must outlive the desk. timeout: of one call; none: the engine answers inline. Without a timer nothing is
  // repeated.
  PermitDeskImpl(engine::EngineSession& session, Executor& executor, const Clock& clock, Timer* timer,
                 std::optional<Micros> timeout, LoopCounters& counters);
  // Nothing may be under way: the engine's session has answered every call.
  ~PermitDeskImpl() override;

  void Release(std::string_view id, PermitReceiver& receiver, uint64_t token) override;
  void Renew(std::string_view id, std::chrono::milliseconds lease, PermitReceiver& receiver,
             uint64_t token) override;
  void Flush() override;
  void Detach(const PermitReceiver& receiver) override;

  // Of the decider, and good inside an engine's call: it is done in a task of its own.
  void GiveBack(const engine::PermitId& permit);  // granted, and nobody hears of it
  void Leave(const engine::PermitId& permit);     // asked for, and nobody waits any more
  // Repeats nothing from now on.
  void Close();

 private:
  // Who hears of a call; null: nobody, or he is gone.
  struct Asker {
    PermitReceiver* receiver = nullptr;
    uint64_t token = 0;
    bool repeated = false;  // asked for again: the answer was given before
    SteadyTime give_up{};   // a release: until when it is tried
  };
  // Invariant: askers[i] asked for calls[i], except that who brought an id that is none of ours stands in `strangers`.
  struct Run {
    std::vector<engine::PermitCall> calls;
    std::vector<Asker> askers;
    std::vector<Asker> strangers;
    uint32_t number = 0;  // its place in runs_
    size_t open = 0;      // calls without answer, and one while it is handed over
  };
  struct Kept {
    engine::PermitId permit;
    SteadyTime give_up;
  };

  void Called(engine::PermitCall& call) noexcept override;
  Run& Open();
  void Add(std::string_view id, engine::PermitVerb verb, Micros lease, const Asker& asker);
  void Add(const engine::PermitId& permit, engine::PermitVerb verb, Micros lease, const Asker& asker);
  void Hand(Run& run);
  void Free(Run& run);
  void Count(const engine::PermitCall& call, bool repeated);
  void Keep(const engine::PermitCall& call, const Asker& asker);
  void Repeat();
  void Arm(Micros pause);

  // Constant after construction.
  engine::EngineSession& session_;
  const Clock& clock_;
  Timer* const timer_;
  const std::optional<Micros> timeout_;
  LoopCounters& counters_;

  // The loop's thread.
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run*> idle_;
  std::vector<Run*> filled_;  // full
  Run* filling_ = nullptr;
  bool inside_ = false;  // a call of the engine or of a receiver is under way
  bool flush_wanted_ = false;
  bool closed_ = false;
  std::deque<Kept> kept_;
  Timer::Id repeat_timer_ = 0;
  bool armed_ = false;
  size_t repeating_ = 0;  // kept releases that are with the engine
  Micros pause_ = kFirstPause;
  Later flush_later_;
};

}  // namespace penstock::service
