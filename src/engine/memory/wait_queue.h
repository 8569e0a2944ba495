// Who waits for the permits of one bucket, in the order in which they came. An entry dies at its own instant, wherever
// it stands.
//
// Thread contract: under the shard's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "engine/memory/wake_post.h"

namespace penstock::engine {

class WaitQueue {
 public:
  // Of one bucket. Who comes then is refused without a place in the queue.
  static constexpr size_t kMaxWaiters = 65'536;

  WaitQueue();
  ~WaitQueue();
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  size_t size() const;
  // Whether an empty queue is better thrown away than kept for the next who wait.
  bool IsLarge() const;
  bool Has(const Hash128& id) const;
  bool IsHead(const Hash128& id) const;
  // The instant at which the last entry dies; that of an empty queue is 0.
  EngineTime LastUntil() const;

  void DropExpired(EngineTime now);
  // Makes room for one more; false when there is no memory.
  bool Reserve();
  // In his old place where he has one, at the tail else. Precondition: Reserve.
  void Put(const Hash128& id, EngineTime until, int64_t weight, const std::shared_ptr<WakePost>& post);
  bool Remove(const Hash128& id);
  // All who asked there.
  void RemoveOf(const WakePost& post);
  // Adds the head to `out` if his weight fits into `room` and he was not woken since he last asked.
  void WakeHead(int64_t room, std::vector<WakeUp>& out);

 private:
  struct Lists;
  const std::unique_ptr<Lists> lists_;
};

}  // namespace penstock::engine
