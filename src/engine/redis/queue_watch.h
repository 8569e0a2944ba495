// Whose permits that were asked for here stand in a queue, and when their turn has come. The scripts tell it in the moment
// (HintKind::kPermits); since a hint may be lost, and an expiry gives none, each bucket in which somebody of this session
// waits is looked at every second, or at its nearest expiry if that is sooner. So nobody needs to ask for himself before
// it is his turn, however many wait, and that look is also the session's word that it lives: who waits for a session
// that has not given it for three seconds leaves the queue.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/executor.h"
#include "base/hash.h"
#include "engine/permit_call.h"
#include "engine/redis/hints.h"
#include "engine/redis/permit_caller.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

struct QueueWatchParts {
  Executor& executor;
  Timer& timer;
  const Clock& clock;
  Hints& hints;
  PermitCaller& caller;
};

class QueueWatch {
 public:
  static constexpr Micros kLook = Seconds(1);      // at the latest
  static constexpr Micros kSoon = Millis(1);       // at the earliest
  static constexpr Micros kTimeout = Millis(500);  // of one look
  // Who was not looked for so long may have been taken for dead: he asks by himself (lua/permits.lua:
  // 3 s).
  static constexpr Micros kUnseen = Millis(2'500);
  // Who has not asked for so long waits no more: he asks every 45 s, or goes.
  static constexpr Micros kForgotten = Seconds(90);

  // All outlive it.
  explicit QueueWatch(const QueueWatchParts& parts);
  ~QueueWatch() { Stop(); }

  void SetWaker(PermitWaker* waker) { waker_ = waker; }
  void Waits(const Hash128& id, const Hash128& bucket);
  void Left(const Hash128& id);
  // Left, and out of the bucket's queue.
  void Leave(const Hash128& id, const Hash128& bucket);
  void Stop();
  size_t size() const { return waiting_.size(); }

 private:
  struct Place {
    Hash128 bucket;
    SteadyTime asked;
  };
  struct Bucket {
    size_t waiting = 0;  // 1 or more
    SteadyTime due;
    SteadyTime seen;  // when it was last known that our places stand
    bool looking = false;
  };
  // Hears of a place that was given up by us.
  class Unheard final : public PermitSink {
   public:
    void Called(PermitCall& call) noexcept override { delete &call; }
  };

  void Heard(std::string_view what);
  void Wake(const Hash128& id);
  void WakeAll(const Hash128& bucket);
  void LookAround();
  void Looked(const Hash128& bucket, std::span<const Hash128> turns, Micros nearest);
  void OneLessIn(const Hash128& bucket);

  const QueueWatchParts parts_;
  const std::shared_ptr<QueueWatch*> self_;  // null inside once this is stopped
  PermitWaker* waker_ = nullptr;
  Unheard unheard_;
  std::map<Hash128, Place> waiting_;
  std::map<Hash128, Bucket> buckets_;  // where somebody waits
  std::unique_ptr<Hints::Listening> listening_;
  Alarm alarm_;
};

}  // namespace penstock::engine::redis
