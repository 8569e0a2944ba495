#include "engine/redis/replica_wait.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "engine/redis/redis_session.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

// What of the time that is left the replicas have: the rest is for the way there and back.
constexpr int64_t kPart = 3, kOf = 4;

bool HoldsPermit(const core::Operation& operation) {
  return operation.limit->replicas > 0 && operation.charge.cost > 0;
}

}  // namespace

void ReplicaWait::Hold(const Ticket& ticket, std::vector<Undo> undo) {
  held.push_back({ticket, std::move(undo)});
}

void ReplicaWait::Begin(SteadyTime now) {
  uint8_t most = 0;
  deadline = SteadyTime{std::numeric_limits<int64_t>::max()};
  for (const Held& one : held) {
    most = std::max(most, one.ticket.replicas);
    deadline = std::min(deadline, one.ticket.deadline);
  }
  // 0 would be for ever.
  const int64_t left = std::clamp<int64_t>((deadline - now).count / kOf * kPart / 1'000, 1, 60'000);
  const std::string count = std::to_string(most), limit = std::to_string(left);
  resp::AppendCommand(command_, {"WAIT", count, limit});
}

void ReplicaWait::Expired() noexcept {
  told_ = true;
  owner_.ReplicasTold(*this, 0, Reason::kTimeout);
}

void ReplicaWait::Done(const Reply& reply) noexcept {
  const std::unique_ptr<ReplicaWait> self(this);
  if (told_) return;
  const bool told = reply.fate == Fate::kReplied && reply.nodes.front().type == resp::ReplyType::kInteger;
  const Reason reason = reply.fate == Fate::kReplied ? Reason::kEngineDown : reply.reason;
  owner_.ReplicasTold(*this, told ? reply.nodes.front().integer : 0, reason);
}

uint8_t RedisSession::ReplicasOf(const Group& group, std::span<const core::Operation> operations) {
  uint8_t most = 0;
  if (group.mode != Mode::kCheck || group.options.dry) return most;
  for (const core::Operation& operation : operations) most = std::max(most, operation.limit->replicas);
  return most;
}

// On connections of their own, so that nobody else stands behind a WAIT.
Topology& RedisSession::TopologyOf(const Ticket& ticket) {
  if (ticket.replicas == 0) return *topology_;
  if (replica_topology_ == nullptr) {
    replica_topology_ =
        OpenTopology({*dialer_, executor_, timer_, engine_.clock(), engine_.scripts(), &engine_.book()},
                     engine_.options(), &engine_.topology_counters());
  }
  return *replica_topology_;
}

// Takes the tickets out of the call whose grants replicas must have, and asks for these on the connection that answered:
// on another one WAIT would wait for nothing.
void RedisSession::HoldForReplicas(PendingCall& call, const Reply& reply) {
  WaitOwner& owner = *this;
  auto wait = std::make_unique<ReplicaWait>(owner);
  for (size_t i = 0; i < call.tickets.size(); ++i) {
    Ticket& ticket = call.tickets[i];
    const ScriptCall::Sent& sent = call.call.sent()[i];
    if (ticket.replicas == 0 || sent.answer != ScriptCall::Answer::kDecided) continue;
    if (ticket.group->result.state != GroupState::kDecided) continue;
    const std::span<const core::Operation> operations = ticket.batch->operations(*ticket.group);
    if (std::none_of(operations.begin(), operations.end(), HoldsPermit)) continue;
    std::vector<Undo> undo;
    call.call.TakeBack(sent, undo);
    for (Undo& one : undo) one.unless_replayed = true;  // somebody else was told by then that he holds
    NoteQueue(ticket);
    wait->Hold(ticket, std::move(undo));
    ticket.group = nullptr;
  }
  if (wait->held.empty()) return;
  wait->slot = call.slot;
  wait->Begin(engine_.clock().Steady());
  const Reason refused = reply.same ? reply.link->Send(*wait) : Reason::kEngineDown;
  if (refused == Reason::kNone) return static_cast<void>(wait.release());  // the link's, until Done
  ReplicasTold(*wait, 0, refused);
}

void RedisSession::ReplicasTold(ReplicaWait& wait, int64_t replicas, Reason reason) noexcept {
  for (ReplicaWait::Held& held : std::exchange(wait.held, {})) {
    const Ticket& ticket = held.ticket;
    if (replicas >= ticket.replicas) {
      ticket.sink->Decided(*ticket.batch, *ticket.group);
      continue;
    }
    TellOdd(ticket, ScriptCall::Answer::kTooFewReplicas);
    if (!closed_ && !held.undo.empty()) undo_.Add(std::move(held.undo), wait.slot);
    Refuse(ticket, reason, true);
  }
}

}  // namespace penstock::engine::redis
