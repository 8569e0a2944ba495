// The Redis engine's side of one event loop: turns groups into script calls, and replies into verdicts.
//
// Groups are not sent when they come but at the end of the loop's turn, so that all that came in one turn share calls:
// that is most of what a decision costs the server. A call goes to one server and is answered as a whole. When its
// deadline passes first, its groups are answered kUnavailable; a reply that comes after all tells what was charged, and
// that is taken back.
//
// Thread contract: one event loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/later.h"
#include "engine/redis/asker.h"
#include "engine/redis/fleet.h"
#include "engine/redis/hint_line.h"
#include "engine/redis/pending_call.h"
#include "engine/redis/permit_caller.h"
#include "engine/redis/queue_watch.h"
#include "engine/redis/redis_engine.h"
#include "engine/redis/registry.h"
#include "engine/redis/replica_wait.h"
#include "engine/redis/spread_group.h"
#include "engine/redis/topology.h"
#include "engine/redis/undo_queue.h"

namespace penstock::engine::redis {

class RedisSession final : public EngineSession,
                           private Asker,
                           private UndoAsker,
                           private CallOwner,
                           private WaitOwner {
 public:
  // Calls kept for the next use; each holds the bytes of its last one.
  static constexpr size_t kMaxIdleCalls = 256;
  // Groups that wait for the end of the turn, or for their server; beyond, they are refused (overload).
  static constexpr size_t kMaxQueued = 65'536;

  RedisSession(RedisEngine& engine, const LoopParts& parts);
  ~RedisSession() override;

  void Decide(Batch& batch, SteadyTime deadline, Sink& sink) noexcept override;
  void CallPermits(std::span<PermitCall> calls, SteadyTime deadline, PermitSink& sink) noexcept override;
  void SetWaker(PermitWaker* waker) noexcept override { watch_.SetWaker(waker); }
  void Close() noexcept override;
  EngineTime EstimateNow() const override;
  LimitRegistry& registry() override { return *registry_; }
  Result<void> Bind(std::span<core::Limit* const> limits) override;
  bool BindAdHoc(core::Limit& limit) override;

 private:
  static constexpr Micros kBeat = Millis(100);
  static constexpr Micros kTellAgain = Seconds(60);  // the same trouble, in the log

  void Ask(Batch& batch, Group& group, int32_t slot, SteadyTime deadline, Sink& sink) noexcept override;
  void LeaveQueue(const Hash128& permit, const Hash128& bucket) noexcept override;
  void AskUndo(uint64_t number, int32_t slot, SteadyTime deadline) noexcept override;
  void Enqueue(const Ticket& ticket);
  // Answers the group as kUnavailable, or the undo as not run.
  void Refuse(const Ticket& ticket, Reason reason, bool may_have_run = false);
  // Whoever stands in for the engine grants permits of buckets that it will be told of later, by their names.
  static void NamePermits(std::span<core::Operation> operations);
  // The slot of each operation's bucket, in slots_. True: all the same.
  bool FindSlots(std::span<const core::Operation> operations);
  void StartSpread(Batch& batch, Group& group, SteadyTime deadline, Sink& sink);
  void RefuseQueued();
  // Puts what is queued into calls and sends them.
  void Flush();
  void Place(const Ticket& ticket);
  void SendOpen();
  std::unique_ptr<PendingCall> NewCall(ServerLink& link, const Ticket& first);
  ScriptCall::Added AddTo(PendingCall& call, const Ticket& ticket);
  // The keys of the ticket's buckets and of its request id, in part_.
  void NameKeys(const Ticket& ticket);
  void Send(std::unique_ptr<PendingCall> call);

  void CallDivided(PendingCall& call) noexcept override;
  void CallExpired(PendingCall& call) noexcept override;
  void CallDone(PendingCall& call, const Reply& reply) noexcept override;
  void UndoCharged(int32_t slot);
  void AnswerAll(PendingCall& call, bool read, const Reply& reply);
  void TellOdd(const Ticket& ticket, ScriptCall::Answer answer);
  void AnswerOne(const Ticket& ticket, const ScriptCall::Sent& sent);
  // Whether the group's asker stands in a queue now.
  void NoteQueue(const Ticket& ticket);
  void Recycle(std::unique_ptr<PendingCall> call);
  void Beat();
  void TellTrouble();

  // Grants that replicas must have (replica_wait.cc).
  static uint8_t ReplicasOf(const Group& group, std::span<const core::Operation> operations);
  Topology& TopologyOf(const Ticket& ticket);
  void HoldForReplicas(PendingCall& call, const Reply& reply);
  void ReplicasTold(ReplicaWait& wait, int64_t replicas, Reason reason) noexcept override;

  // Constant after construction.
  RedisEngine& engine_;
  Dialer* const dialer_;
  Executor& executor_;
  Timer& timer_;

  bool closed_ = false;
  Later flush_;                  // at the end of the turn
  bool counted_usable_ = false;  // in the engine's usable_links
  int64_t clock_offset_us_ = 0;  // of the server's clock, as the last reply had it
  bool clock_known_ = false;
  Timer::Id beat_ = 0;
  std::string trouble_;  // the topology's, at the last beat
  std::string told_;     // in the log
  SteadyTime told_at_;
  std::array<SteadyTime, 8> odd_told_until_{};  // by kind of answer
  std::vector<Ticket> queue_;
  std::vector<Ticket> flushing_;
  // Being filled, at most one a script, all for one slot; empty between two flushes. A call that is under way is nobody's
  // but its link's until it is done.
  std::vector<std::unique_ptr<PendingCall>> open_;
  std::vector<std::unique_ptr<PendingCall>> idle_;
  std::vector<std::unique_ptr<SpreadGroup>> spread_;
  UndoQueue undo_;
  PermitCaller permits_;
  QueueWatch watch_;
  FleetBeat heart_;
  HintLine hint_line_;
  std::unique_ptr<RedisRegistry> registry_;
  std::unique_ptr<Topology> replica_topology_;  // null until a grant must have replicas
  std::unique_ptr<Topology> topology_;          // the last: its links give back what they hold when they go

  // Room that is used again.
  std::vector<int32_t> slots_;
  std::string key_bytes_;
  std::vector<core::Operation*> part_operations_;
  std::vector<std::string_view> part_keys_;
  std::string readable_bytes_;
  std::vector<std::string_view> part_readable_;
  CallPart part_;
  std::vector<Undo> charged_;
};

}  // namespace penstock::engine::redis
