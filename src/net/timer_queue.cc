#include "net/timer_queue.h"

namespace penstock::net {

uint64_t TimerQueue::Schedule(SteadyTime at, std::function<void()> task) {
  const uint64_t id = next_id_++;
  due_.emplace(std::pair(at.us, id), std::move(task));
  instants_.emplace(id, at.us);
  return id;
}

void TimerQueue::Cancel(uint64_t id) {
  const auto it = instants_.find(id);
  if (it == instants_.end()) return;
  due_.erase({it->second, id});
  instants_.erase(it);
}

void TimerQueue::Run(SteadyTime now) {
  const uint64_t end = next_id_;
  for (auto it = due_.begin(); it != due_.end() && it->first.first <= now.us;) {
    if (it->first.second >= end) {
      ++it;
      continue;
    }
    const std::function<void()> task = std::move(it->second);
    instants_.erase(it->first.second);
    due_.erase(it);
    task();
    it = due_.begin();  // the task may have scheduled and cancelled
  }
}

}  // namespace penstock::net
