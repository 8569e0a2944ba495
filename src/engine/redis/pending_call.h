// One script call on its way, with the groups that it decides.
//
// Thread contract: one event loop's thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/redis/asker.h"
#include "engine/redis/exchange.h"
#include "engine/redis/script_call.h"

namespace penstock::engine::redis {

// A group that waits to be asked, or for its answer; or an undo.
struct Ticket {
  Batch* batch = nullptr;
  Group* group = nullptr;
  Sink* sink = nullptr;
  SteadyTime deadline;
  int32_t slot = Exchange::kNoSlot;
  bool by_group = false;  // its plain script sent it on to the one that can do everything
  uint8_t replicas = 0;   // so many must have what it is granted
  uint64_t undo = 0;      // not 0: the undo's number; no batch, group and sink then
  // Not 0: how often it was refused in a call that it shared (TRYAGAIN). It has a call of its own then: its keys alone
  // say whether it can be run.
  int redirects = 0;
};

class PendingCall;

class CallOwner {
 public:
  virtual ~CallOwner() = default;
  virtual void CallDivided(PendingCall& call) noexcept = 0;
  virtual void CallExpired(PendingCall& call) noexcept = 0;
  virtual void CallDone(PendingCall& call, const Reply& reply) noexcept = 0;
};

class PendingCall final : public Exchange {
 public:
  PendingCall(CallOwner& owner, std::span<const Script> scripts) : call(scripts), owner_(owner) {}

  void Meet(Micros max_lag) noexcept override { call.SetMaxLag(max_lag); }
  void Prepare(const ClockOffset& clock) noexcept override {
    if (clock.known()) call.SetNotAfter(clock.Latest(deadline));
    command_ = call.command();
  }
  std::string_view command() const noexcept override { return command_; }
  const Script* script() const noexcept override { return &call.script(); }
  bool Divide() noexcept override {
    if (tickets.size() < 2) return false;
    owner_.CallDivided(*this);
    return true;
  }
  void Expired() noexcept override { owner_.CallExpired(*this); }
  void Done(const Reply& reply) noexcept override { owner_.CallDone(*this, reply); }

  ScriptCall call;
  std::vector<Ticket> tickets;  // in the order of the call's groups
  ServerLink* link = nullptr;
  bool expired = false;  // its groups were answered; a reply only tells what to take back

 private:
  CallOwner& owner_;
  std::string_view command_;
};

}  // namespace penstock::engine::redis
