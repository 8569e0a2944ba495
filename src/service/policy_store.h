// The newest policy, and how it reaches the event loops: registered with the engine first (which gives every limit
// its version and binding), given lasting names and counters, then posted to each loop, which owns its pointer.
//
// Thread contract: every method may be called from any thread, except that Publish runs on the loop of the session
// it is given, and that AddLoop and RemoveLoop run on the loop that they name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/engine.h"
#include "policy/policy.h"
#include "service/limit_info.h"
#include "service/metrics.h"
#include "service/names.h"

namespace penstock::service {

// A policy as the loops see it. Immutable.
struct PublishedPolicy {
  std::shared_ptr<const policy::Policy> policy;  // null: none, only ad hoc limits
  std::vector<LimitInfo> limits;
  uint64_t generation = 0;  // grows by one a publication
};
using PolicyPointer = std::shared_ptr<const PublishedPolicy>;

// A loop that wants every new policy.
class PolicyReceiver {
 public:
  virtual ~PolicyReceiver() = default;
  // On the loop's thread.
  virtual void SetPolicy(PolicyPointer policy) = 0;
};

class PolicyStore {
 public:
  explicit PolicyStore(Metrics& metrics);

  // Registers the policy and publishes it; `done` hears whether it did, on the session's loop (inline where the
  // engine answers inline). A policy that could not be registered changes nothing. The policy must not be shared yet.
  // Of two publications under way the later call wins.
  void Publish(std::shared_ptr<policy::Policy> policy, engine::EngineSession& session,
               std::function<void(Result<void>)> done) EXCLUDES(mutex_);

  PolicyPointer Newest() const EXCLUDES(mutex_);

  // The receiver gets the newest policy now and every later one through the executor.
  void AddLoop(Executor& executor, PolicyReceiver& receiver) EXCLUDES(mutex_);
  void RemoveLoop(const PolicyReceiver& receiver) EXCLUDES(mutex_);

 private:
  // Outlives its loop in tasks that are still queued; `receiver` is then null. Loop thread only.
  struct Seat {
    PolicyReceiver* receiver = nullptr;
  };
  struct Loop {
    Executor* executor = nullptr;
    std::shared_ptr<Seat> seat;
  };
  Result<std::shared_ptr<PublishedPolicy>> Prepare(std::shared_ptr<policy::Policy> policy);
  void Announce(const PolicyPointer& published) EXCLUDES(mutex_);

  Metrics& metrics_;
  LastingNames names_;
  mutable Mutex mutex_;
  uint64_t last_generation_ GUARDED_BY(mutex_) = 0;
  PolicyPointer newest_ GUARDED_BY(mutex_);
  std::vector<Loop> loops_ GUARDED_BY(mutex_);
};

}  // namespace penstock::service
