// The memory engine's side of one event loop: names the buckets of a batch, has their lines fetched, decides.
//
// A run of operations goes through two passes: the first hashes the keys and prefetches, the second decides under the
// shards' locks, so that the misses of a whole run overlap.
//
// Thread contract: one event loop's thread; what it shares with other sessions has its own locks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/memory/bucket_table.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/request_ids.h"
#include "engine/memory/wake_post.h"
#include "penstock/request.h"

namespace penstock::engine {

class MemorySession final : public EngineSession {
 public:
  // Without an executor those who wait for a permit are not woken.
  MemorySession(MemoryEngine& engine, Executor* executor);
  ~MemorySession() override;
  MemorySession(const MemorySession&) = delete;
  MemorySession& operator=(const MemorySession&) = delete;

  void Decide(Batch& batch, SteadyTime deadline, Sink& sink) noexcept override;
  void CallPermits(std::span<PermitCall> calls, SteadyTime deadline, PermitSink& sink) noexcept override;
  void SetWaker(PermitWaker* waker) noexcept override { post_->SetWaker(waker); }
  void Expect(core::Operation& operation) noexcept override;
  // Those who asked here leave all queues.
  void Close() noexcept override;
  EngineTime EstimateNow() const override { return engine_.Now(); }
  LimitRegistry& registry() override;
  Result<void> Bind(std::span<core::Limit* const> limits) override;
  bool BindAdHoc(core::Limit& limit) override;

 private:
  static constexpr size_t kRun = 64;                              // operations hashed and prefetched ahead
  static constexpr size_t kMaxOperations = kMaxLimitsPerRequest;  // of one group
  static_assert(kMaxOperations <= SlotTable::kMaxRoom);

  // One group, its operations named.
  struct Work {
    Group& group;
    std::span<core::Operation> operations;
    EngineTime now;
  };

  void DecideGroup(const Work& work);
  void DecideOne(Group& group, core::Operation& operation, EngineTime now);
  // One operation that is not plain, or whose bucket is absent or was written under other parameters.
  void DecideOther(const Work& work);
  void DecideUnderId(const Work& work);
  void DecideAll(const Work& work);
  void Reset(const Work& work);
  void Settle(const Work& work, IdRecord& record);
  void Adjust(const Work& work);
  // Has a newer version of one of the limits been there before, or is now outside of its calendar's edges? Says so.
  bool RefuseLate(const Work& work);
  // Under the locks: carries the edits out. False: there was no room, nothing was, and the group is refused.
  bool StoreAll(const Work& work);
  // Under the locks: looks the buckets up, decides, stores. Fills group.result and the verdicts.
  void DecideLocked(const Work& work);
  void KeepId(const Work& work, const Hash128& id);
  static void Replay(const Work& work, IdRecord& record);
  void Refuse(const Work& work, GroupState state, Reason reason);
  // One of its limits has no place in the table of parameters.
  void RefuseUnbound(const Work& work);
  void Finish(const Work& work, core::GroupStatus status);

  // Permits (memory_permits.cc); all but the last under the locks.
  Asker AskerOf(const Work& work) const { return {work.group.options.permit, post_}; }
  // A strict limit grants nothing for a lease after the start: a snapshot is older than the last grants.
  void HoldBack(core::Operation& operation) const;
  // Where the queue is full, he who would stand in it is refused without.
  void BoundQueue(core::Operation& operation);
  // What the group's result says of permits, and who is to be woken.
  void TellPermits(const Work& work);
  void TellPermit(const Work& work, const core::Operation& operation);
  void WakeHead(const Slot& slot, HolderRecord& record);
  void DropHolders(const core::Operation& operation, EngineTime now);
  void ListHolders(const Work& work);
  core::PermitFate CallOne(PermitCall& call, const PermitPlace& place, EngineTime now);
  void SendWakeUps();

  MemoryEngine& engine_;
  BucketTable& table_;
  const std::shared_ptr<WakePost> post_;
  std::vector<WakeUp> wake_ups_;  // to be sent when no lock is held
};

}  // namespace penstock::engine
