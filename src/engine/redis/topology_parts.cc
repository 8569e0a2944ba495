#include "engine/redis/topology_parts.h"

#include <algorithm>

namespace penstock::engine::redis {
namespace {

constexpr Micros kSweepEvery = Millis(20);

}  // namespace

void Refuse(Exchange& exchange, Reason reason) noexcept {
  Reply reply;
  reply.fate = Fate::kNotRun;
  reply.reason = reason;
  exchange.Done(reply);
}

void Alarm::SetAt(SteadyTime at) {
  Cancel();
  at_ = at;
  id_ = timer_.Schedule(at, [this] {
    id_ = 0;
    task_();
  });
}

void Alarm::SetBy(SteadyTime at) {
  if (id_ == 0 || at < at_) SetAt(at);
}

void Alarm::Cancel() {
  if (id_ != 0) timer_.Cancel(id_);
  id_ = 0;
}

bool ControlCall::Start(ServerLink& link, std::string command, SteadyTime at_latest) {
  command_ = std::move(command);
  deadline = at_latest;
  redirects = 0;
  told_ = false;
  in_use_ = true;
  in_use_ = link.Send(*this) == Reason::kNone;
  return in_use_;
}

void ControlCall::Expired() noexcept {
  if (told_ || heard_ == nullptr) return;
  told_ = true;
  Reply reply;
  reply.fate = Fate::kUnknown;
  reply.reason = Reason::kTimeout;
  heard_(reply);
}

void ControlCall::Done(const Reply& reply) noexcept {
  in_use_ = false;
  if (told_ || heard_ == nullptr) return;
  told_ = true;
  heard_(reply);
}

Parking::Parking(Timer& timer, const Clock& clock, TopologyCounters& counters,
                 std::function<void(Exchange&)> send_again)
    : clock_(clock),
      counters_(counters),
      send_again_(std::move(send_again)),
      alarm_(timer, [this] { Wake(false); }) {}

void Parking::RefuseAll() noexcept {
  alarm_.Cancel();
  for (const Parked& parked : std::exchange(parked_, {})) Refuse(*parked.exchange, Reason::kShuttingDown);
}

void Parking::Park(Exchange& exchange, SteadyTime until) noexcept {
  if (parked_.size() >= kMost) return Refuse(exchange, Reason::kOverload);
  until = std::min(until, exchange.deadline);
  parked_.push_back({&exchange, until});
  alarm_.SetBy(until);
}

void Parking::WakeAll() noexcept { Wake(true); }

void Parking::Wake(bool all) noexcept {
  const SteadyTime now = clock_.Steady();
  // What is sent again may come back here at once: only those that are here now are looked at.
  std::vector<Parked> due;
  std::erase_if(parked_, [&](const Parked& parked) {
    if (!all && parked.until > now) return false;
    due.push_back(parked);
    return true;
  });
  for (const Parked& parked : parked_) alarm_.SetBy(parked.until);
  for (const Parked& parked : due) {
    if (parked.exchange->deadline <= now) {
      counters_.given_up.fetch_add(1, std::memory_order_relaxed);
      Refuse(*parked.exchange, Reason::kTimeout);
    } else {
      send_again_(*parked.exchange);
    }
  }
}

RetiredLinks::RetiredLinks(Timer& timer, const Clock& clock)
    : clock_(clock), alarm_(timer, [this] { Sweep(); }) {}

void RetiredLinks::Add(std::unique_ptr<ServerLink> link) {
  if (link == nullptr) return;
  const SteadyTime now = clock_.Steady();
  links_.push_back({std::move(link), now + kLongest});
  alarm_.SetBy(now);
}

void RetiredLinks::CloseAll() {
  alarm_.Cancel();
  const std::vector<Retired> gone = std::exchange(links_, {});
}

void RetiredLinks::Sweep() {
  const SteadyTime now = clock_.Steady();
  std::vector<Retired> gone;
  std::erase_if(links_, [&](Retired& retired) {
    if (retired.link->in_flight() != 0 && now < retired.close_at) return false;
    gone.push_back(std::move(retired));
    return true;
  });
  if (!links_.empty()) alarm_.SetBy(now + kSweepEvery);
  gone.clear();  // their last words may add links
}

}  // namespace penstock::engine::redis
