// What was sent on a connection and not answered yet, in the order of the replies to come. Internal to the link.
//
// A ring that grows to its owner's bound and is reused: no allocation in the steady state. Entries have numbers that
// count up for ever, so that one can be found again after others came and went.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/redis/exchange.h"

namespace penstock::engine::redis {

struct InFlight {
  enum class Kind : uint8_t {
    kExchange,
    kGreeting,  // a command of our own at the connection's start
    kAsking,    // before an exchange; its reply says nothing
    kLoad,      // SCRIPT LOAD of `script`
  };
  Kind kind = Kind::kExchange;
  bool expired = false;            // its Expired was called
  uint8_t loads = 0;               // how often its script was found missing
  Exchange* exchange = nullptr;    // kExchange
  const Script* script = nullptr;  // kLoad
  SteadyTime deadline;
  uint64_t end = 0;  // bytes of the connection up to the end of this command
};

class Fifo {
 public:
  bool empty() const { return head_ == tail_; }
  size_t size() const { return static_cast<size_t>(tail_ - head_); }
  // The numbers of the entries: [head, tail).
  uint64_t head() const { return head_; }
  uint64_t tail() const { return tail_; }

  // References end with the next Push.
  InFlight& at(uint64_t number) { return ring_[number & (ring_.size() - 1)]; }
  void Push(const InFlight& entry) {
    if (size() == ring_.size()) Grow();
    at(tail_++) = entry;
  }
  InFlight Pop() { return at(head_++); }

 private:
  void Grow() {
    std::vector<InFlight> larger(ring_.empty() ? 64 : ring_.size() * 2);
    for (uint64_t i = head_; i != tail_; ++i) larger[i & (larger.size() - 1)] = at(i);
    ring_ = std::move(larger);
  }

  // Invariant: head_ <= tail_ <= head_ + ring_.size(), which is a power of two or 0.
  std::vector<InFlight> ring_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace penstock::engine::redis
