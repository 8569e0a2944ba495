#include "service/failover/failover_engine.h"

#include <utility>

namespace penstock::service {

std::unique_ptr<engine::EngineSession> FailoverEngine::OpenLoop(const engine::LoopParts& parts) {
  return std::make_unique<FailoverSession>(node_, remote_.OpenLoop(parts), local_.OpenSession(), parts.timer,
                                           clock_);
}

FailoverSession::FailoverSession(FailoverNode& node, std::unique_ptr<engine::EngineSession> remote,
                                 std::unique_ptr<engine::EngineSession> local, Timer& timer,
                                 const Clock& clock)
    : node_(node),
      remote_(std::move(remote)),
      local_(std::move(local)),
      stand_in_(node, *remote_, *local_),
      permits_(node, *remote_, *local_),
      reconciler_(node, *remote_, *local_, timer, clock) {}

FailoverSession::~FailoverSession() { Close(); }

void FailoverSession::Close() noexcept {
  closed_ = true;
  reconciler_.Close();
  remote_->Close();
}

void FailoverSession::PolicyChanged(const std::shared_ptr<const void>& policy) {
  policy_ = policy.get();
  reconciler_.SetPolicy(policy);
}

void FailoverSession::Decide(engine::Batch& batch, SteadyTime deadline, engine::Sink& sink) noexcept {
  if (batch.groups().empty()) return;
  if (batch.policy.get() != policy_) [[unlikely]]
    PolicyChanged(batch.policy);
  Relay& relay = Acquire();
  relay.sink = &sink;
  relay.open = batch.groups().size();
  remote_->Decide(batch, deadline, relay);
}

FailoverSession::Relay& FailoverSession::Acquire() {
  if (idle_.empty()) [[unlikely]] {
    idle_.push_back(relays_.emplace_back(std::make_unique<Relay>()).get());
    idle_.back()->session = this;
  }
  Relay& relay = *idle_.back();
  idle_.pop_back();
  return relay;
}

void FailoverSession::Answered(Relay& relay, engine::Batch& batch, engine::Group& group) noexcept {
  engine::Sink& sink = *relay.sink;
  if (--relay.open == 0) idle_.push_back(&relay);
  if (group.result.state == engine::GroupState::kDecided) [[likely]] {
    reconciler_.SetHealthy(true);
    Note(batch, group);
  } else if (group.result.state != engine::GroupState::kUnavailable) {
    reconciler_.SetHealthy(true);
    if (group.result.state == engine::GroupState::kUnknownId) SettleHere(batch, group);
  } else if (!closed_ && group.result.reason != Reason::kShuttingDown) {
    DecideHere(batch, group);
  }
  sink.Decided(batch, group);
}

void FailoverSession::Note(engine::Batch& batch, const engine::Group& group) {
  if (group.result.replayed) return;
  for (const core::Operation& operation : batch.operations(group)) {
    const core::Limit& limit = *operation.limit;
    if (limit.on_failure != core::OnFailure::kLocal || limit.params.kind != core::RateKind::kFinite ||
        operation.skipped || operation.verdict.outcome == Outcome::kUnavailable) {
      continue;
    }
    node_.seen.Note(node_.NameOf(node_.IdentityOf(limit), operation.key), UseOf(operation, group.result.now));
  }
}

void FailoverSession::DecideHere(engine::Batch& batch, engine::Group& group) {
  if (reconciler_.healthy()) {
    reconciler_.SetHealthy(false);
    if (node_.options.clock != nullptr) node_.options.clock->Set(remote_->EstimateNow());
  }
  const Reason reason = group.result.reason;
  if (!stand_in_.Decide(batch, group)) return;
  node_.Began(reason);
  reconciler_.Wake();
}

void FailoverSession::SettleHere(engine::Batch& batch, engine::Group& group) {
  if (closed_ || !node_.MayKeepIds(local_->EstimateNow())) return;
  const engine::GroupResult told = group.result;
  group.result = {.reason = Reason::kEngineDown, .now = told.now};
  if (stand_in_.Decide(batch, group) && group.result.state == engine::GroupState::kDecided) {
    reconciler_.Wake();
  } else {
    group.result = told;
  }
}

}  // namespace penstock::service
