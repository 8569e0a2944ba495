#include "embed/permit_keeper.h"

#include <algorithm>
#include <utility>

namespace penstock {

Permit::State::State(const PermitGrant& grant, std::chrono::milliseconds asked, SteadyTime asked_at,
                     const Clock& clock, std::shared_ptr<embed::KeeperPost> to)
    : id(grant.id.view()),
      fence(grant.fence),
      asked_lease(asked),
      lease{grant.expires_in.count()},
      post(std::move(to)),
      clock_(clock),
      deadline_us_((asked_at + Micros{grant.waited.count()} + lease - embed::OwnersMargin(lease)).us) {}

Permit::Permit() noexcept = default;
Permit::Permit(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
Permit::Permit(Permit&& other) noexcept = default;
Permit& Permit::operator=(Permit&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  state_ = std::move(other.state_);
  return *this;
}
Permit::~Permit() { GiveBack(); }

bool Permit::held() const noexcept { return state_ != nullptr && state_->held(); }
std::string_view Permit::id() const noexcept { return state_ == nullptr ? std::string_view() : state_->id; }
std::optional<int64_t> Permit::fence() const noexcept {
  return state_ == nullptr ? std::nullopt : state_->fence;
}

std::chrono::steady_clock::time_point Permit::deadline() const noexcept {
  if (state_ == nullptr || state_->over_.load(std::memory_order_acquire)) return {};
  const Micros left = state_->deadline() - state_->clock().Steady();
  return std::chrono::steady_clock::now() + std::chrono::microseconds(left.count);
}

std::stop_token Permit::lost() const noexcept {
  return state_ == nullptr ? std::stop_token() : state_->lost.get_token();
}

void Permit::GiveBack() noexcept {
  if (state_ == nullptr || state_->over_.exchange(true, std::memory_order_acq_rel)) return;
  state_->post->GiveBack(state_);
}

}  // namespace penstock

namespace penstock::embed {

void KeeperPost::Post(std::function<void(PermitKeeper&)> task) {
  MutexLock lock(mutex_);
  if (executor_ == nullptr) return;
  executor_->Post([keeper = keeper_, task = std::move(task)] { task(*keeper); });
}

void KeeperPost::Keep(std::shared_ptr<Permit::State> state) {
  Post([state = std::move(state)](PermitKeeper& keeper) { keeper.Keep(state); });
}

void KeeperPost::GiveBack(std::shared_ptr<Permit::State> state) {
  Post([state = std::move(state)](PermitKeeper& keeper) { keeper.GiveBack(*state); });
}

void KeeperPost::Close() {
  MutexLock lock(mutex_);
  executor_ = nullptr;
}

PermitKeeper::PermitKeeper(service::PermitDesk& desk, Timer& timer, const Clock& clock)
    : desk_(desk), timer_(timer), clock_(clock) {}

PermitKeeper::~PermitKeeper() {
  for (const auto& [number, kept] : kept_) timer_.Cancel(kept.timer);
  desk_.Detach(*this);
}

void PermitKeeper::Keep(std::shared_ptr<Permit::State> state) {
  const uint64_t number = ++last_number_;
  numbers_[state.get()] = number;
  Kept& kept = kept_[number];
  const SteadyTime granted = state->deadline() - state->lease + OwnersMargin(state->lease);
  kept = {std::move(state), granted, 0};
  Wait(number, kept, granted + Micros{kept.state->lease.count / 3});
}

void PermitKeeper::Wait(uint64_t number, Kept& kept, SteadyTime until) {
  kept.timer = timer_.Schedule(std::min(until, kept.state->deadline()), [this, number] { Renew(number); });
}

void PermitKeeper::Renew(uint64_t number) {
  const auto found = kept_.find(number);
  if (found == kept_.end()) return;
  Kept& kept = found->second;
  kept.timer = 0;
  const SteadyTime now = clock_.Steady();
  if (now >= kept.state->deadline()) return Lose(number);
  kept.asked_at = now;
  desk_.Renew(kept.state->id, kept.state->asked_lease, *this, number);
  desk_.Flush();
}

void PermitKeeper::PermitAnswered(uint64_t number, const service::PermitAnswer& answer) noexcept {
  if (given_back_.erase(number) > 0) {
    if (given_back_.empty() && closed_) std::exchange(closed_, nullptr)();
    return;
  }
  const auto found = kept_.find(number);
  if (found == kept_.end()) return;  // given back meanwhile
  Kept& kept = found->second;
  switch (answer.fate) {
    case core::PermitFate::kRenewed: {
      // The limit's lease may be another one by now.
      const Micros left{answer.expires_in.count()};
      const SteadyTime until = kept.asked_at + left - OwnersMargin(left);
      kept.state->deadline_us_.store(std::max(until, kept.state->deadline()).us, std::memory_order_release);
      return Wait(number, kept, kept.asked_at + Micros{left.count / 3});
    }
    case core::PermitFate::kUnavailable:
      return Wait(number, kept, clock_.Steady() + std::min(Seconds(1), Micros{kept.state->lease.count / 10}));
    case core::PermitFate::kReleased:
    case core::PermitFate::kExpired:
    case core::PermitFate::kUnknown:
      return Lose(number);
  }
}

void PermitKeeper::Lose(uint64_t number) {
  const auto found = kept_.find(number);
  const std::shared_ptr<Permit::State> state = std::move(found->second.state);
  kept_.erase(found);
  numbers_.erase(state.get());
  if (!state->over_.exchange(true, std::memory_order_acq_rel)) state->lost.request_stop();
}

void PermitKeeper::GiveBack(const Permit::State& state) {
  const auto found = numbers_.find(&state);
  if (found == numbers_.end()) return;
  const auto kept = kept_.find(found->second);
  numbers_.erase(found);
  timer_.Cancel(kept->second.timer);
  const uint64_t number = ++last_number_;  // a renewal may be on its way under the old one
  given_back_[number] = std::move(kept->second.state);
  kept_.erase(kept);
  desk_.Release(state.id, *this, number);
  desk_.Flush();
}

void PermitKeeper::Close(std::function<void()> done) {
  while (!kept_.empty()) {
    const std::shared_ptr<Permit::State> state = kept_.begin()->second.state;
    if (!state->over_.exchange(true, std::memory_order_acq_rel)) state->lost.request_stop();
    GiveBack(*state);
  }
  if (given_back_.empty()) return done();
  closed_ = std::move(done);
}

}  // namespace penstock::embed
