#include "engine/redis/undo_queue.h"

#include <utility>

#include "engine/redis/count.h"

namespace penstock::engine::redis {

UndoQueue::~UndoQueue() {
  for (auto& [number, entry] : entries_) {
    if (entry.timer != 0) timer_.Cancel(entry.timer);
  }
  Count(counters_.undo_lost, entries_.size());
}

void UndoQueue::Add(std::vector<Undo> charges, int32_t slot) {
  if (entries_.size() >= kMaxPending) return Count(counters_.undo_lost);
  const uint64_t number = ++last_number_;
  entries_.emplace(number, Entry{std::move(charges), slot, clock_.Steady() + kKeepTrying, 0});
  Try(number);
}

void UndoQueue::Try(uint64_t number) {
  Entry& entry = entries_.at(number);
  entry.timer = 0;
  asker_.AskUndo(number, entry.slot, clock_.Steady() + kTimeout);
}

void UndoQueue::Answered(uint64_t number, UndoFate fate) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  const SteadyTime next = clock_.Steady() + kPause;
  // With a request id it undoes nothing twice.
  const bool again = fate == UndoFate::kNotRun ||
                     (fate == UndoFate::kMayHaveRun && !found->second.charges[0].id_key.empty());
  if (again && next <= found->second.give_up) {
    found->second.timer = timer_.Schedule(next, [this, number] { Try(number); });
    return;
  }
  Count(fate == UndoFate::kDone ? counters_.undone : counters_.undo_lost);
  entries_.erase(found);
}

}  // namespace penstock::engine::redis
