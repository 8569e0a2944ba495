// WAIT: until so many replicas have what was written before on the same connection, or the time is over; and the grants that
// hang on it.
//
// Thread contract: one event loop's thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/exchange.h"
#include "engine/redis/pending_call.h"

namespace penstock::engine::redis {

class ReplicaWait;

class WaitOwner {
 public:
  virtual ~WaitOwner() = default;
  // Once: so many replicas have it. Fewer than were asked for: with the reason why no more were heard of.
  virtual void ReplicasTold(ReplicaWait& wait, int64_t replicas, Reason reason) noexcept = 0;
};

// Given to a link it belongs to itself, until Done.
class ReplicaWait final : public Exchange {
 public:
  struct Held {
    Ticket ticket;
    std::vector<Undo> undo;  // takes the grant back
  };

  explicit ReplicaWait(WaitOwner& owner) : owner_(owner) {}

  void Hold(const Ticket& ticket, std::vector<Undo> undo);
  // Before it is sent.
  void Begin(SteadyTime now);

  std::string_view command() const noexcept override { return command_; }
  void Expired() noexcept override;
  void Done(const Reply& reply) noexcept override;

  std::vector<Held> held;

 private:
  WaitOwner& owner_;
  std::string command_;
  bool told_ = false;
};

}  // namespace penstock::engine::redis
