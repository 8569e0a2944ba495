#include "service/waiting_room.h"

#include <algorithm>
#include <iterator>

namespace penstock::service {

Waiter* WaitingRoom::Add(const Hash128& permit, Receiver* receiver, uint64_t token) {
  if (size() == kMaxWaiting || by_permit_.contains(permit)) return nullptr;
  Waiter& waiter = all_.emplace_back();
  waiter.self_ = std::prev(all_.end());
  waiter.permit = permit;
  waiter.receiver = receiver;
  waiter.asker_ = receiver;
  waiter.token = token;
  by_permit_.emplace(permit, &waiter);
  by_token_.emplace(Key{receiver, token}, &waiter);
  return &waiter;
}

void WaitingRoom::Remove(Waiter& waiter) {
  LeaveLine(waiter);
  by_permit_.erase(waiter.permit);
  const auto [first, last] = by_token_.equal_range(Key{waiter.asker_, waiter.token});
  by_token_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == &waiter; }));
  all_.erase(waiter.self_);
}

Waiter* WaitingRoom::Find(const Hash128& permit) {
  const auto found = by_permit_.find(permit);
  return found == by_permit_.end() ? nullptr : found->second;
}

Waiter* WaitingRoom::Find(const Receiver& receiver, uint64_t token) {
  const auto [first, last] = by_token_.equal_range(Key{&receiver, token});
  const auto found =
      std::find_if(first, last, [&](const auto& entry) { return entry.second->receiver == &receiver; });
  return found == last ? nullptr : found->second;
}

void WaitingRoom::SetPlace(Waiter& waiter, const engine::PermitId& place) {
  const bool moved = waiter.line_ == nullptr || !(waiter.place.places[0].bucket == place.places[0].bucket);
  waiter.place = place;
  if (!moved) return;
  LeaveLine(waiter);
  std::list<Waiter*>& line = lines_[place.places[0].bucket];  // a node of the map: it does not move
  waiter.line_ = &line;
  waiter.in_line_ = line.insert(line.end(), &waiter);
  waiter.bucket_ = place.places[0].bucket;
}

void WaitingRoom::LeaveLine(Waiter& waiter) {
  if (waiter.line_ == nullptr) return;
  waiter.line_->erase(waiter.in_line_);
  if (waiter.line_->empty()) lines_.erase(waiter.bucket_);
  waiter.line_ = nullptr;
}

Waiter* WaitingRoom::FirstBeside(const Waiter& waiter) {
  return waiter.line_ == nullptr ? nullptr : waiter.line_->front();
}

Waiter* WaitingRoom::NextFirst(const Waiter& waiter) {
  if (FirstBeside(waiter) != &waiter) return nullptr;
  const auto next = std::next(waiter.in_line_);
  return next == waiter.line_->end() ? nullptr : *next;
}

Micros WaitingRoom::AskAfter(const Waiter& waiter, Micros after) {
  if (FirstBeside(waiter) == &waiter) return std::clamp(after, kAtLeast, kPoll);
  const Micros poll = std::max(after, kPoll);
  // Those who came together do not ask together for ever.
  return poll - Micros{static_cast<int64_t>(waiter.permit.high % static_cast<uint64_t>(poll.count / 8))};
}

}  // namespace penstock::service
