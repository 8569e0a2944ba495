// The limits in force on this node: loads files, sets and removes limits at run time, follows what other nodes do, and
// publishes the policy that comes of it. One a process.
//
// One thing is done at a time; what comes meanwhile waits, in order. Compiling is the slow part: it runs on the `heavy`
// executor, so that no loop waits for it.
//
// Thread contract: every call on the loop of the session (`home`), and so does every `done`, exactly once, inline where
// engine and `heavy` are.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/result.h"
#include "engine/engine.h"
#include "policy/policy.h"
#include "service/limit_overlay.h"
#include "service/policy_store.h"

namespace penstock::service {

// All outlive the keeper. `home` runs no task, and `heavy` is not in the middle of one, when it is destroyed.
struct KeeperParts {
  engine::EngineSession& session;
  PolicyStore& store;
  const Clock& clock;
  Executor* home = nullptr;   // null: `heavy` is null too
  Executor* heavy = nullptr;  // null: compile where it is called
};

class LimitKeeper {
 public:
  using Done = std::function<void(Result<void>)>;
  // The limit as it is in force now; its definition is empty where none is.
  using ChangeDone = std::function<void(Result<engine::RegisteredLimit>)>;

  static constexpr size_t kMaxWaiting = 1'000;  // beyond, changes are kUnavailable
  static constexpr Micros kPoll = Seconds(1);   // how often it asks, hints or none
  // A version that buckets have is passed when it is still met so long after, and nobody has brought it back.
  static constexpr Micros kForgotten = Seconds(3);

  LimitKeeper(const KeeperParts& parts, policy::BuildOptions build)
      : parts_(parts), build_(std::move(build)) {}
  ~LimitKeeper() {
    if (timer_ != nullptr) timer_->Cancel(next_poll_);
  }
  LimitKeeper(const LimitKeeper&) = delete;
  LimitKeeper& operator=(const LimitKeeper&) = delete;

  // Registers a file's limits and publishes them with all that was set at run time; `compiled` is the file's policy, not
  // shared yet. kConflict: the registry has its revision with other content, the policy before stays. kUnavailable: the
  // engine did not answer. The first file is then in force all the same, a later one as soon as Poll reaches the engine.
  void Load(std::shared_ptr<const policy::PolicyDefinition> file, std::shared_ptr<policy::Policy> compiled,
            Done done);
  // `body` is one limit, as policy/definition_text.h reads it. Done when this node has published it.
  void Put(std::string domain, std::string name, std::string body, std::optional<core::Version> if_match,
           ChangeDone done);
  void Remove(std::string domain, std::string name, std::optional<core::Version> if_match, ChangeDone done);
  // Polls now, after every pause, and whenever the engine hints that something changed, as long as there is the keeper.
  // Once; the timer is the session's loop's and outlives the keeper.
  void Follow(Timer& timer, Micros pause = kPoll);
  // Asks what changed, and brings back what the registry has lost. One that waits already is enough.
  void Poll(Done done = {});

 private:
  using Registered = Result<std::vector<engine::RegisteredLimit>>;
  using Step = std::function<void()>;

  struct Loading {
    std::shared_ptr<const FileLimits> file;
    std::shared_ptr<policy::Policy> compiled;
  };
  struct Seen {
    core::Version version = 0;
    SteadyTime since;
    SteadyTime last;  // said again
  };

  // Runs the job now or when those before it have called Next.
  void Start(Step job);
  void Next();
  // Runs `work` on the heavy executor, then `after` on this loop.
  void Heavy(Step work, Step after);

  void LoadNow(std::shared_ptr<const policy::PolicyDefinition> file, std::shared_ptr<policy::Policy> compiled,
               Done done);
  // Registers the file's limits; publishes on success.
  void RegisterFile(const Loading& loading, const Done& done);
  void PollAndAgain(Micros pause);
  void PollNow(Done done);
  // `all`: from the beginning, because the registry is not what it was.
  void Look(bool all, Done done);
  void Changed(const engine::RegistryChanges& changes, bool all, Done done);
  // Claims what ought to stand in the registry and does not; then Settle.
  void Reclaim(std::vector<engine::Claim> claims, Done done);
  // Publishes if anything changed.
  void Settle(Done done);
  void Publish(Done done);
  void FinishChange(Result<engine::RegisteredLimit> changed, const ChangeDone& done);
  std::vector<engine::Claim> Forgotten();
  void Apply(const std::vector<engine::RegisteredLimit>& limits);

  const KeeperParts parts_;
  const policy::BuildOptions build_;
  std::deque<Step> waiting_;
  bool busy_ = false;
  bool poll_waits_ = false;
  Timer* timer_ = nullptr;  // once it follows
  Timer::Id next_poll_ = 0;

  // Of the job at hand.
  LimitOverlay overlay_;
  std::shared_ptr<policy::Policy> compiled_;  // of the overlay's file alone, until it is published
  engine::RegistryMark mark_;                 // as of the last look
  bool looked_ = false;                       // the registry was read once
  bool dirty_ = false;                        // something changed since the last publication
  bool claims_owed_ = false;                  // what ought to be claimed was not, or was not looked for
  std::optional<Loading> owed_;               // a file that the engine has not heard of
  std::map<std::string, Seen, std::less<>> seen_;
  LimitOverlay::Unusable told_;  // what the log has said already
};

}  // namespace penstock::service
