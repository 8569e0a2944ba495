// Requests that wait for their decision, by the token the decider hands back: a pool that keeps its capacity. Bounded
// by what the sessions let in flight.
//
// Thread contract: one event loop.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::api {

template <class Entry>
class PendingPool {
 public:
  // The token of a new entry.
  uint64_t Add(Entry entry) {
    if (free_.empty()) {
      entries_.push_back(std::move(entry));
      return entries_.size() - 1;
    }
    const uint64_t token = free_.back();
    free_.pop_back();
    entries_[token] = std::move(entry);
    return token;
  }
  Entry& At(uint64_t token) { return entries_[token]; }
  Entry Take(uint64_t token) {
    free_.push_back(token);
    return std::exchange(entries_[token], {});
  }
  // Every token that there ever was is below; the entry of a free one is as it is made.
  uint64_t end() const { return entries_.size(); }
  size_t size() const { return entries_.size() - free_.size(); }

 private:
  // A token is free, or its entry waits.
  std::vector<Entry> entries_;
  std::vector<uint64_t> free_;
};

}  // namespace penstock::api
