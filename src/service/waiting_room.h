// Those who wait for a permit on one event loop: what they asked, and where they stand in the engine's queues.
//
// The queue is the engine's; here is only what is needed to ask again. A waiter is woken by the engine, or asks by the
// clock. Of those who wait here for one bucket only the first can be the queue's head, so only he need ask as soon as
// the engine says (an expiry wakes nobody), and every kPoll: nobody tells him that he has become the head because one
// who asked elsewhere has gone. The others ask seldom, so that the engine knows that they still wait.
//
// Thread contract: one event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/executor.h"
#include "engine/permit_call.h"
#include "service/decider.h"

namespace penstock::service {

struct Waiter {
  Hash128 permit;
  Receiver* receiver = nullptr;  // null: he is gone
  uint64_t token = 0;
  Decision* into = nullptr;
  bool counted = false;
  const Request* request = nullptr;    // the caller's (stable), or in `bytes`
  std::unique_ptr<std::byte[]> bytes;  // that he keeps himself
  SteadyTime since;
  SteadyTime until;

  engine::PermitId place;  // the queue in which he stood when he asked last
  bool asking = false;     // with the engine, or on the way there
  bool woken = false;      // meanwhile
  bool armed = false;      // `timer` will make him ask, at `asks_at`
  Timer::Id timer = 0;
  SteadyTime asks_at;
  SteadyTime due;  // when the engine wants to be asked

 private:
  friend class WaitingRoom;
  std::list<Waiter>::iterator self_;
  const Receiver* asker_ = nullptr;     // as it was at first
  std::list<Waiter*>* line_ = nullptr;  // of bucket_; null: in none
  Hash128 bucket_;
  std::list<Waiter*>::iterator in_line_;
};

class WaitingRoom {
 public:
  static constexpr size_t kMaxWaiting = 16'384;  // about 1 KiB each; beyond, a request is denied at once
  static constexpr Micros kPoll = Seconds(1);    // at the latest of the first, at the earliest of the others
  static constexpr Micros kAtLeast = Millis(1);  // of anybody

  // Null: no room.
  Waiter* Add(const Hash128& permit, Receiver* receiver, uint64_t token);
  // He must not be asking; ends with his timer cancelled by the caller.
  void Remove(Waiter& waiter);
  Waiter* Find(const Hash128& permit);
  Waiter* Find(const Receiver& receiver, uint64_t token);
  // He stands in that queue now, behind all who stand there already.
  void SetPlace(Waiter& waiter, const engine::PermitId& place);
  // The first of those who wait here for the same bucket; null: he is in no line.
  static Waiter* FirstBeside(const Waiter& waiter);
  // Who will be the first when this one goes; null: somebody else is, or nobody.
  static Waiter* NextFirst(const Waiter& waiter);
  // When he asks next, if the engine told him to do so after `after` at the latest.
  static Micros AskAfter(const Waiter& waiter, Micros after);

  // In the order in which they came.
  std::list<Waiter>& all() { return all_; }
  size_t size() const { return by_permit_.size(); }

 private:
  struct Key {
    const Receiver* receiver;
    uint64_t token;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hasher {
    size_t operator()(const Hash128& id) const { return id.low; }
    size_t operator()(const Key& key) const {
      return (reinterpret_cast<uintptr_t>(key.receiver) ^ key.token) * 0x9e3779b97f4a7c15ULL >> 16;
    }
  };
  void LeaveLine(Waiter& waiter);

  // Invariant: a waiter of all_ stands in by_permit_, in by_token_, and in at most one line; no line is empty.
  std::list<Waiter> all_;
  std::unordered_map<Hash128, Waiter*, Hasher> by_permit_;
  std::unordered_multimap<Key, Waiter*, Hasher> by_token_;
  std::unordered_map<Hash128, std::list<Waiter*>, Hasher> lines_;  // by bucket
};

}  // namespace penstock::service
