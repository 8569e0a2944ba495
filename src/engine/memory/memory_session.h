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

#include "engine/memory/bucket_table.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/request_ids.h"
#include "penstock/request.h"

namespace penstock::engine {

class MemorySession final : public EngineSession {
 public:
  explicit MemorySession(MemoryEngine& engine) : engine_(engine), table_(*engine.table_) {}

  void Decide(Batch& batch, SteadyTime deadline, Sink& sink) noexcept override;
  void Expect(core::Operation& operation) noexcept override;
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

  MemoryEngine& engine_;
  BucketTable& table_;
};

}  // namespace penstock::engine
