// Tells the engine, once it answers again, what this node used without it. One a loop; together they go round the
// node's books, a bounded number of buckets a turn, until nothing is left.
//
// Of a bucket is told what it used more than the engine can know, as of the telling; a report that fails is made again, as
// long as the use still counts. A report whose reply is lost may count twice, never not at all.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "engine/engine.h"
#include "service/calendar_cache.h"
#include "service/failover/node.h"
#include "service/failover/stand_in.h"

namespace penstock::service {

class Reconciler final : private engine::Sink {
 public:
  static constexpr size_t kReportsPerTurn = 256;
  static constexpr size_t kLooksPerShard = 16;  // buckets a shard and turn
  static constexpr size_t kMaxFlights = 4;      // turns whose reports are under way
  static constexpr Micros kBusyPause = Millis(20);
  static constexpr Micros kOutagePause = Millis(100);
  static constexpr Micros kLongestRetry = Seconds(5);

  // All must outlive it.
  Reconciler(FailoverNode& node, engine::EngineSession& remote, engine::EngineSession& local, Timer& timer,
             const Clock& clock)
      : node_(node), remote_(remote), local_(local), timer_(timer), clock_(clock) {}
  ~Reconciler() override { Close(); }

  // Whether the engine answered the last request.
  void SetHealthy(bool healthy) { healthy_ = healthy; }
  bool healthy() const { return healthy_; }
  // There are local buckets.
  void Wake();
  // The policy at hand: a limit that changed meanwhile is looked up in it. A PublishedPolicy, or null.
  void SetPolicy(std::shared_ptr<const void> policy);
  // Nothing is looked at any more.
  void Close();

 private:
  struct Item {
    Hash128 name;
    std::shared_ptr<const Share> share;
    std::shared_ptr<const void> policy;
    core::BucketState state;  // of the local bucket
    Adjustment adjustment;
  };
  struct Flight {
    engine::Batch batch;
    std::vector<Item> items;  // by the group's token
    size_t open = 0;          // groups under way
  };

  void Decided(engine::Batch& batch, engine::Group& group) noexcept override;

  void Turn();
  void Schedule();
  Flight* Acquire();
  void Fill(Flight& flight);
  // Looks at the shard's next bucket.
  void LookAt(LocalBooks::Shard& shard, Flight& flight) REQUIRES(shard.mutex);
  void Report(const LocalBucket& bucket, const Item& item, Flight& flight);
  const core::WindowBoundaries* Boundaries(const core::Limit& limit, EngineTime now, engine::Batch& batch);
  // Drops the local bucket: the engine knows all that it knew.
  void Forget(const LocalBucket& bucket);
  void Reported(const Item& item, const engine::Group& group, const core::Operation& operation,
                LocalBucket& bucket);
  void Failed(const engine::Group& group, bool was_healthy, LocalBucket& bucket);
  // The engine has a newer version of the limit.
  void Renew(const Item& item, LocalBucket& bucket);
  void Lose(const Item& item, LocalBucket& bucket);
  const core::Limit* NewerOf(const core::Limit& limit);

  FailoverNode& node_;
  engine::EngineSession& remote_;
  engine::EngineSession& local_;
  Timer& timer_;
  const Clock& clock_;
  CalendarCache calendar_;
  engine::Batch scratch_;
  std::vector<std::string_view> key_;
  std::vector<std::unique_ptr<Flight>> flights_;  // at most kMaxFlights
  std::shared_ptr<const void> policy_;
  std::unordered_multimap<std::string_view, const core::Limit*>
      by_identity_;  // of policy_; made when first needed
  bool indexed_ = false;
  bool healthy_ = true;
  bool closed_ = false;
  Timer::Id timer_id_ = 0;
  bool scheduled_ = false;
};

}  // namespace penstock::service
