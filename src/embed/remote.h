// The event loops of a limiter: where its buckets live in a store, and where permits are waited for and kept. Callers
// hand requests over and wait, or are called back.
//
// Thread contract: Decide, DecideMany, DecideAsync and Load from any thread but the loops' own (a blocking call from a
// callback would wait for itself, and is answered with an error instead); DecideAsync from there too. Construction and
// destruction while no call is under way; a destruction first answers what is still open.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "embed/permit_keeper.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "penstock/limiter.h"
#include "service/background.h"
#include "service/decider_impl.h"
#include "service/limit_keeper.h"

namespace penstock::embed {

// A request on its way through a loop.
struct Job {
  service::Request request;
  Decision decision;
  std::atomic<uint32_t>* open = nullptr;  // of a caller who waits: counts down to 0
  Limiter::Callback callback;             // of one who does not; the job then owns what its request points to
  std::string bytes;
  std::vector<Attribute> attributes;
  std::vector<UnitCost> costs;
};

class RemoteLoop final : private service::Receiver {
 public:
  // Asynchronous requests given and not answered; beyond, they are answered `unavailable`, overload, at once.
  static constexpr size_t kMaxOpen = 65'536;

  RemoteLoop(engine::Engine& engine, const Clock& clock, service::PolicyStore& store,
             service::LoopCounters& counters, const service::DeciderOptions& options);
  ~RemoteLoop() override;

  Result<void> Start();
  void Stop();

  // The caller keeps the job until its `open` is counted down.
  void Give(std::span<Job> jobs);
  // False: too many are open, or the loop has stopped.
  bool GiveAsync(const service::Request& request, const Limiter::Callback& callback);

  net::Loop& loop() { return loop_; }
  engine::EngineSession& session() { return *session_; }
  const std::shared_ptr<KeeperPost>& keeper() const { return post_; }
  // Whether the calling thread is that of some loop.
  static bool OnLoop();

 private:
  void Push(std::span<Job* const> jobs) EXCLUDES(mutex_);
  void Work() EXCLUDES(mutex_);
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override;
  void Answer(Job& job) EXCLUDES(mutex_);

  const Clock& clock_;
  net::Loop loop_;
  const std::unique_ptr<Dialer> dialer_;
  const std::unique_ptr<engine::EngineSession> session_;
  service::DeciderImpl decider_;
  PermitKeeper keeper_;
  const std::shared_ptr<KeeperPost> post_;  // outlives the loop in the hands of owners
  std::vector<Job*> working_;               // the loop's
  std::thread thread_;

  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::vector<Job*> inbox_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Job>> jobs_
      GUARDED_BY(mutex_);  // all that were ever made for asynchronous requests
  std::vector<Job*> free_ GUARDED_BY(mutex_);
};

class Remote {
 public:
  Remote(engine::Engine& engine, const Clock& clock, service::PolicyStore& store, service::Metrics& metrics,
         const service::DeciderOptions& options, unsigned loops);
  ~Remote();

  // Before Start: what a policy is made ready with.
  void OpenLimits(service::PolicyStore& store, const Clock& clock, policy::BuildOptions build);
  Result<void> Start();
  Decision Decide(const service::Request& request);
  void DecideMany(std::span<const Request> requests, std::span<Decision> decisions);
  void DecideAsync(const service::Request& request, const Limiter::Callback& callback);
  // As LimitKeeper::Load; returns when every loop decides by the new policy.
  Result<void> Load(std::shared_ptr<const policy::PolicyDefinition> file,
                    std::shared_ptr<policy::Policy> policy);
  // Returns when every loop has done what was posted to it before.
  void ReachAll();
  // The calling thread's.
  const std::shared_ptr<KeeperPost>& keeper() { return LoopOfThread().keeper(); }

 private:
  RemoteLoop& LoopOfThread();
  // Gives the jobs to the thread's loop and waits until all are answered.
  void WaitFor(std::span<Job> jobs);

  std::vector<std::unique_ptr<RemoteLoop>> loops_;
  std::unique_ptr<service::LimitKeeper> limits_;  // on the first loop
  service::Background background_;                // compiles for it; joined before anything else goes
};

}  // namespace penstock::embed
