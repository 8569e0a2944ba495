// The permits of one bucket: who holds until when, what the unexpired weigh together, the last fence, and who waits.
// Holders are kept in the order of their expiries and found by their id. One that has expired is counted out at the next
// look, and is remembered for one more lease, if not too many are.
//
// Every use begins with Open, which brings the record to an instant (an earlier one too: the clock may step back).
//
// Thread contract: under the shard's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/operation.h"
#include "engine/memory/wait_queue.h"

namespace penstock::engine {

struct KnownHolder {
  core::Holder holder;
  std::string_view name;
};

class HolderRecord {
 public:
  // Expired holders of one bucket. Beyond it the oldest are forgotten early, and told `unknown`: who asks for leases far
  // shorter than the limit's could fill the memory with them.
  static constexpr size_t kMaxRemembered = 100'000;

  HolderRecord() noexcept;
  ~HolderRecord();
  HolderRecord(HolderRecord&& other) noexcept;
  HolderRecord& operator=(HolderRecord&& other) noexcept;

  // Before anything else of a fresh record.
  void Begin();

  // `lease` is that of the bucket as it is stored. How many holders' leases were found to have run out; below 0 where the
  // clock stepped back.
  int64_t Open(EngineTime now, Micros lease);
  // All of the view but version and parameters. Null: nobody asks for a permit.
  void Show(const core::PermitAsk* ask, core::BucketView& view) const;

  core::BucketState state() const;
  int64_t in_use() const;
  // The unexpired in order of expiry, and what they call themselves.
  const core::HolderOrder& order() const;
  static std::string_view NameOf(const core::Holder& holder);
  // Null: nobody, or long forgotten.
  const core::Holder* Find(const Hash128& id) const;
  size_t waiting() const;
  // Whether he is the next of those who wait.
  bool IsHead(const Hash128& id) const;
  // The instant from which the record is the same as an absent one, if nobody asks before.
  EngineTime IdleAt(Micros lease) const;

  // Makes room for what the edit adds; false when there is no memory.
  bool Reserve(const core::BucketEdit& edit);
  // Precondition: Reserve. Who holds already under that id holds as this says.
  void Grant(const core::Holder& holder, std::string_view name);
  void Remove(const Hash128& id);
  // Precondition: he holds.
  void Renew(const Hash128& id, EngineTime expires_at);
  void RaiseFence(int64_t fence);
  // Nobody holds any more; who waits goes on waiting.
  void DropHolders();

  // Preconditions: Reserve; fewer than WaitQueue::kMaxWaiters, or he waits already.
  void Queue(const Hash128& id, EngineTime until, int64_t weight, const std::shared_ptr<WakePost>& post);
  bool Leave(const Hash128& id);
  void LeaveAllOf(const WakePost& post);
  // Who is to be woken, now that so much can be held.
  void WakeHead(int64_t capacity, std::vector<WakeUp>& out);

  // Visits every holder that is still known, the earliest expiry first: visit(holder, name).
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (const core::Holder* holder = First(); holder != nullptr; holder = After(*holder)) {
      visit(*holder, NameOf(*holder));
    }
  }

 private:
  struct Holders;
  void DropEmptyQueue();
  const core::Holder* First() const;
  static const core::Holder* AfterIn(const Holders& holders, const core::Holder& holder);
  const core::Holder* After(const core::Holder& holder) const { return AfterIn(*holders_, holder); }

  std::unique_ptr<Holders> holders_;
  std::unique_ptr<WaitQueue> queue_;  // null or empty: nobody waits
};

}  // namespace penstock::engine
