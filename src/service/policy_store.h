// The newest policy, and how it reaches the event loops: bound to the engine first, given lasting names and counters,
// then posted to each loop, which owns its pointer. limit_keeper.h makes the policies.
//
// Thread contract: every method may be called from any thread, except that Publish runs on the loop of the session
// it is given, and that AddLoop and RemoveLoop run on the loop that they name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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

// Where a limit comes from.
struct LimitSource {
  bool put = false;                               // set at run time
  int64_t revision = 0;                           // of the file that it comes from; 0: none
  std::shared_ptr<const std::string> definition;  // policy/definition_text.h; null where it was never told
};

// A policy as the loops see it. Immutable.
struct PublishedPolicy {
  std::shared_ptr<const policy::Policy> policy;  // null: none, only ad hoc limits
  std::vector<LimitInfo> limits;
  std::vector<LimitSource> sources;  // likewise by Limit::number; empty: all from files that nobody told of
  uint64_t generation = 0;           // grows by one a publication
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
  // Limits of which a newer version was seen, kept until somebody looks; more are dropped: they are seen again.
  static constexpr size_t kMaxStale = 1'000;

  explicit PolicyStore(Metrics& metrics);

  // Binds the policy's limits, whose versions are set, and publishes it. What could not be bound changes nothing. The
  // policy must not be shared yet.
  Result<void> Publish(std::shared_ptr<policy::Policy> policy, std::vector<LimitSource> sources,
                       engine::EngineSession& session) EXCLUDES(mutex_);

  // The same for a policy whose limits were never registered, by what they were compiled to: where there is no keeper
  // (tests, a question of the command line). `done` comes on the session's loop, inline where the engine answers inline.
  void Publish(std::shared_ptr<policy::Policy> policy, engine::EngineSession& session,
               std::function<void(Result<void>)> done) EXCLUDES(mutex_);

  PolicyPointer Newest() const EXCLUDES(mutex_);

  // The receiver gets the newest policy now and every later one through the executor.
  void AddLoop(Executor& executor, PolicyReceiver& receiver) EXCLUDES(mutex_);
  void RemoveLoop(const PolicyReceiver& receiver) EXCLUDES(mutex_);

  // The engine holds a newer version of this limit than the newest policy here has.
  void ReportStale(std::string_view domain, std::string_view name, core::Version seen) EXCLUDES(mutex_);
  // By "domain/name".
  using StaleVersions = std::map<std::string, core::Version, std::less<>>;
  StaleVersions TakeStale() EXCLUDES(mutex_);
  // Called on the reporting thread by every report that finds none waiting. Set before the first loop decides.
  void OnStale(std::function<void()> hook) EXCLUDES(mutex_);

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
  void Announce(const std::shared_ptr<PublishedPolicy>& published) EXCLUDES(mutex_);

  Metrics& metrics_;
  LastingNames names_;
  mutable Mutex mutex_;
  PolicyPointer newest_ GUARDED_BY(mutex_);
  std::vector<Loop> loops_ GUARDED_BY(mutex_);
  StaleVersions stale_ GUARDED_BY(mutex_);
  std::function<void()> on_stale_ GUARDED_BY(mutex_);
};

}  // namespace penstock::service
