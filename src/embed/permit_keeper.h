// Keeps permits alive for their owners in this process: renews each at a third of its lease, tells of a loss, gives back.
//
// Thread contract: PermitKeeper belongs to one event loop. Permit::State is shared by the owner's thread and the loop:
// constant, but for its atomics.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "penstock/permit.h"
#include "service/permit_desk.h"

namespace penstock::embed {

class PermitKeeper;

// The way from an owner to the loop that keeps his permit, open until the loop stops.
class KeeperPost {
 public:
  KeeperPost(Executor& executor, PermitKeeper& keeper) : executor_(&executor), keeper_(&keeper) {}
  // Any thread. Without a loop nobody keeps a permit any more: it ends with its lease.
  void Keep(std::shared_ptr<Permit::State> state) EXCLUDES(mutex_);
  void GiveBack(std::shared_ptr<Permit::State> state) EXCLUDES(mutex_);
  void Close() EXCLUDES(mutex_);

 private:
  void Post(std::function<void(PermitKeeper&)> task) EXCLUDES(mutex_);

  Mutex mutex_;
  Executor* executor_ GUARDED_BY(mutex_);  // null once closed
  PermitKeeper* const keeper_;
};

// How early an owner stops before the lease ends.
constexpr Micros OwnersMargin(Micros lease) { return std::max(Millis(50), Micros{lease.count / 20}); }

}  // namespace penstock::embed

namespace penstock {

class Permit::State {
 public:
  State(const PermitGrant& grant, std::chrono::milliseconds asked_lease, SteadyTime asked_at,
        const Clock& clock, std::shared_ptr<embed::KeeperPost> post);

  bool held() const { return !over_.load(std::memory_order_acquire) && clock_.Steady() < deadline(); }
  SteadyTime deadline() const { return {deadline_us_.load(std::memory_order_acquire)}; }
  const Clock& clock() const { return clock_; }

  // Constant.
  const std::string id;
  const std::optional<int64_t> fence;
  const std::chrono::milliseconds asked_lease;  // 0: the limit's own
  const Micros lease;                           // as it was granted
  const std::shared_ptr<embed::KeeperPost> post;
  std::stop_source lost;

 private:
  friend class Permit;
  friend class embed::PermitKeeper;

  const Clock& clock_;
  std::atomic<int64_t> deadline_us_;
  std::atomic<bool> over_{false};  // lost or given back
};

}  // namespace penstock

namespace penstock::embed {

class PermitKeeper final : private service::PermitReceiver {
 public:
  // All outlive the keeper.
  PermitKeeper(service::PermitDesk& desk, Timer& timer, const Clock& clock);
  ~PermitKeeper() override;

  void Keep(std::shared_ptr<Permit::State> state);
  void GiveBack(const Permit::State& state);
  // Every permit is lost to its owner and given back; `done` when the last has been, or could not be.
  void Close(std::function<void()> done);
  size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    std::shared_ptr<Permit::State> state;
    SteadyTime asked_at;  // of the last renewal
    Timer::Id timer = 0;
  };

  void PermitAnswered(uint64_t token, const service::PermitAnswer& answer) noexcept override;
  void Wait(uint64_t number, Kept& kept, SteadyTime until);
  void Renew(uint64_t number);
  // The owner is told, and nobody renews it any more.
  void Lose(uint64_t number);

  service::PermitDesk& desk_;
  Timer& timer_;
  const Clock& clock_;
  uint64_t last_number_ = 0;
  std::unordered_map<uint64_t, Kept> kept_;
  std::unordered_map<const Permit::State*, uint64_t> numbers_;
  std::unordered_map<uint64_t, std::shared_ptr<Permit::State>> given_back_;  // not answered yet
  std::function<void()> closed_;
};

}  // namespace penstock::embed
