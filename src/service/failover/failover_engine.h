// An engine that stays able to decide when the one it wraps cannot be asked: limits with on_failure `local` are then
// decided by this node's memory engine, under the node's share, and what was used so is told to the engine when it
// answers again.
//
// Everything else is the wrapped engine's: it is asked first, always, and its answers are handed on unchanged. Nothing
// waits for the local decision: it is taken inside the call that says the engine could not be asked.
//
// Thread contract: as Engine and EngineSession. One FailoverEngine a process and engine: the node's share is one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/fleet.h"
#include "engine/memory/memory_engine.h"
#include "service/failover/node.h"
#include "service/failover/permit_relay.h"
#include "service/failover/reconciler.h"
#include "service/failover/stand_in.h"

namespace penstock::service {

class FailoverEngine final : public engine::Engine {
 public:
  // All must outlive it. `local` is for nothing else; its clock should be options.clock.
  FailoverEngine(engine::Engine& remote, engine::MemoryEngine& local, const engine::FleetView& fleet,
                 const Clock& clock, const FailoverOptions& options)
      : remote_(remote), local_(local), clock_(clock), node_(fleet, options) {}

  std::string_view name() const override { return remote_.name(); }
  std::unique_ptr<engine::EngineSession> OpenLoop(const engine::LoopParts& parts) override;
  Result<void> CanHold(const core::LimitParams& params) const override { return remote_.CanHold(params); }
  bool CanHoldPermits() const override { return remote_.CanHoldPermits(); }
  // Someone can decide: the engine, or this node by its share.
  bool ready() const override { return remote_.ready() || node_.fleet().known; }
  engine::EngineStats stats() const override { return remote_.stats(); }

  FailoverStats failover_stats() const { return node_.stats(); }
  // For the log, if this node has begun or ceased to decide by itself since the last call; else empty.
  std::string TakeNews() { return node_.TakeNews(); }

 private:
  engine::Engine& remote_;
  engine::MemoryEngine& local_;
  const Clock& clock_;
  FailoverNode node_;
};

class FailoverSession final : public engine::EngineSession {
 public:
  FailoverSession(FailoverNode& node, std::unique_ptr<engine::EngineSession> remote,
                  std::unique_ptr<engine::EngineSession> local, Timer& timer, const Clock& clock);
  ~FailoverSession() override;

  void Decide(engine::Batch& batch, SteadyTime deadline, engine::Sink& sink) noexcept override;
  void CallPermits(std::span<engine::PermitCall> calls, SteadyTime deadline,
                   engine::PermitSink& sink) noexcept override {
    permits_.Call(calls, deadline, sink);
  }
  void SetWaker(engine::PermitWaker* waker) noexcept override { remote_->SetWaker(waker); }
  void Expect(core::Operation& operation) noexcept override { remote_->Expect(operation); }
  void Close() noexcept override;
  EngineTime EstimateNow() const override { return remote_->EstimateNow(); }
  engine::LimitRegistry& registry() override { return remote_->registry(); }
  Result<void> Bind(std::span<core::Limit* const> limits) override { return remote_->Bind(limits); }
  bool BindAdHoc(core::Limit& limit) override { return remote_->BindAdHoc(limit); }
  // Without it a node that nobody asks any more would not tell what it used under limits that are newer now.
  void PolicyChanged(const std::shared_ptr<const void>& policy) override;

 private:
  // Hears of one batch in the place of its sink.
  struct Relay final : engine::Sink {
    void Decided(engine::Batch& batch, engine::Group& group) noexcept override {
      session->Answered(*this, batch, group);
    }
    FailoverSession* session = nullptr;
    engine::Sink* sink = nullptr;
    size_t open = 0;  // groups that it has not heard of
  };

  Relay& Acquire();
  void Answered(Relay& relay, engine::Batch& batch, engine::Group& group) noexcept;
  // Remembers how the engine's buckets are.
  void Note(engine::Batch& batch, const engine::Group& group);
  void DecideHere(engine::Batch& batch, engine::Group& group);
  // A settle of an id that the engine does not keep: it may be kept here.
  void SettleHere(engine::Batch& batch, engine::Group& group);

  FailoverNode& node_;
  const std::unique_ptr<engine::EngineSession> remote_;
  const std::unique_ptr<engine::EngineSession> local_;
  StandIn stand_in_;
  PermitRelay permits_;
  Reconciler reconciler_;
  std::vector<std::unique_ptr<Relay>> relays_;
  std::vector<Relay*> idle_;
  const void* policy_ = nullptr;  // that the reconciler holds
  bool closed_ = false;
};

}  // namespace penstock::service
