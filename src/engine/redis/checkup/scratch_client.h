// One client of an engine, with an event loop of its own: asks for decisions on a scratch limit, and tells what came.
//
// Thread contract: one thread, which is not the loop's.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/limit.h"
#include "engine/engine.h"
#include "engine/redis/checkup/loop_thread.h"

namespace penstock::checkup {

// What to ask.
struct Plan {
  std::string key;
  size_t keys = 1;     // more: the key and a number, in turn
  uint64_t times = 1;  // decisions
  size_t together = 1;
  int64_t cost = 1;
  engine::Mode mode = engine::Mode::kCheck;
  Micros timeout = Seconds(1);
  Micros most = Seconds(10);                // no further ask from then on
  Micros pause{};                           // between two asks
  const std::atomic<bool>* stop = nullptr;  // no further ask once it is true
};

// What came of it.
struct Tally {
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t unavailable = 0;
  uint64_t other = 0;
  std::vector<int64_t> decided_us;  // how long each took that was decided
  Micros longest_gap{};             // between two that were decided, or from the last one to the end
  Micros reset_after{};             // of the last that was decided
  bool last_decided = false;
  Reason reason = Reason::kNone;  // of the last that was not

  uint64_t decided() const { return admitted + denied + other; }
};

class ScratchClient final : private engine::Sink {
 public:
  static constexpr size_t kMaxTogether = 64;

  // The engine and the clock must outlive it.
  ScratchClient(engine::Engine& engine, const Clock& clock, core::Limit limit);
  ~ScratchClient() override;

  // Until a look at the key is answered: the connection has to be made. False: it never was, and why.
  bool WaitUntilReady(const std::string& key, std::string& why);
  // One at a time.
  std::future<Tally> Begin(const Plan& plan);
  Tally Do(const Plan& plan) { return Begin(plan).get(); }

  const core::Limit& limit() const { return limit_; }

 private:
  void Ask();
  void Next();
  void Finish();
  void Decided(engine::Batch& batch, engine::Group& group) noexcept override;
  void Count(const engine::Group& group);

  LoopThread thread_;

  // The loop's thread.
  core::Limit limit_;
  std::unique_ptr<engine::EngineSession> session_;
  engine::Batch batch_;
  Plan plan_;
  Tally tally_;
  std::promise<Tally> promise_;
  uint64_t asked_ = 0;
  size_t in_flight_ = 0;
  SteadyTime began_;
  SteadyTime asked_at_;
  SteadyTime last_decided_at_;
};

}  // namespace penstock::checkup
