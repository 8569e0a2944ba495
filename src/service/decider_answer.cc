// The way back: from the engine's verdicts to the receivers.
#include <limits>
#include <utility>

#include "engine/permit_id.h"
#include "policy/diagnostics.h"
#include "service/decider_impl.h"

namespace penstock::service {

void DeciderImpl::Flush() {
  if (deciding_) {
    flush_wanted_ = true;
    return;
  }
  deciding_ = true;
  // Ends when the receivers stop asking again.
  while (!filled_.empty() || filling_ != nullptr) {
    Context* context = nullptr;
    if (filled_.empty()) [[likely]] {
      context = std::exchange(filling_, nullptr);
    } else {
      context = filled_.front();
      filled_.erase(filled_.begin());
    }
    Decide(*context);
  }
  deciding_ = false;
  flush_wanted_ = false;
}

void DeciderImpl::Decide(Context& context) {
  const std::span<engine::Group> groups = context.batch.groups();
  context.open = static_cast<uint32_t>(groups.size()) + 1;  // the one: until we are done here
  if (&context == repeating_) repeating_ = nullptr;
  if (context.refusal != Reason::kNone) [[unlikely]] {
    for (engine::Group& group : groups) {
      group.result.state = engine::GroupState::kUnavailable;
      group.result.reason = context.refusal;
      Decided(context.batch, group);
    }
  } else if (!groups.empty()) {
    if (options_.timeout && !context.deadline) context.deadline = clock_.Steady() + *options_.timeout;
    session_.Decide(context.batch, context.deadline.value_or(SteadyTime{std::numeric_limits<int64_t>::max()}),
                    *this);
  }
  if (!context.immediate.empty()) AnswerImmediates(context);
  if (--context.open == 0) Release(context);
}

void DeciderImpl::AnswerImmediates(Context& context) {
  for (Immediate& immediate : context.immediate) {
    Pending pending = context.pending[immediate.pending];
    if (Waiter* const waiter = pending.asked.waiter; waiter != nullptr) {  // his limits have gone
      pending.receiver = waiter->receiver;
      permits_.Leave(waiter->place);
      EndWait(*waiter);
    }
    if (pending.receiver != nullptr) AnswerUnasked(pending, std::move(immediate.error));
  }
}

void DeciderImpl::AnswerUnasked(const Pending& pending, std::optional<Error> error) {
  if (error) {
    counters_.totals.invalid.Add(1);
    pending.receiver->Decided(pending.token, tl::unexpected<Error>(std::move(*error)));
    return;
  }
  counters_.totals.unmatched.Add(1);
  Decision& decision = pending.into != nullptr ? *pending.into : decision_;
  SetUnlimited(decision);
  pending.receiver->Decided(pending.token, &decision);
}

void DeciderImpl::Decided(engine::Batch& batch, engine::Group& group) noexcept {
  const bool outside = !std::exchange(deciding_, true);  // an engine that answers later
  Context& context = *contexts_[group.token >> 32];
  const Pending pending = context.pending[static_cast<uint32_t>(group.token)];
  const engine::GroupState state = group.result.state;
  const bool stale = state == engine::GroupState::kStale || state == engine::GroupState::kStaleClock;
  if (stale && Repeat(context, pending, batch, group)) [[unlikely]] {
    flush_wanted_ = true;
  } else if (pending.asked.waiter != nullptr ||
             (state == engine::GroupState::kDecided && group.result.queued)) [[unlikely]] {
    AnswerWaiting(context, pending, batch, group);
  } else if (pending.receiver != nullptr) {
    AnswerGroup(pending, batch, group);
  } else {
    GiveBack(batch, group);
  }
  if (pending.asked.ad_hoc != nullptr) ad_hoc_.Unuse(*pending.asked.ad_hoc);
  if (--context.open == 0) Release(context);
  if (!outside) return;
  deciding_ = false;
  // Not from here: the engine may be in the middle of its own work.
  if (std::exchange(flush_wanted_, false)) flush_later_.Post();
}

bool DeciderImpl::MayRepeat(const PublishedPolicy& used, int repeats, engine::GroupState state) {
  if (repeats == kMaxRepeats) return false;
  if (state == engine::GroupState::kStale) {
    const uint64_t generation = used.generation;  // `used` may go with the policy at hand
    PolicyPointer newest = store_.Newest();
    if (newest->generation > policy_->generation) SetPolicy(std::move(newest));
    if (generation >= policy_->generation) return false;
  }
  counters_.totals.repeats.Add(1);
  return true;
}

void DeciderImpl::AnswerGroup(const Pending& pending, engine::Batch& batch, engine::Group& group,
                              Micros waited) {
  const engine::GroupState state = group.result.state;
  if (state == engine::GroupState::kConflict || state == engine::GroupState::kUnknownId) [[unlikely]] {
    pending.receiver->Decided(pending.token, tl::unexpected<Error>(UndecidedError(group)));
    return;
  }
  Decision& decision = pending.into != nullptr ? *pending.into : decision_;
  const LimitInfo* const infos = pending.asked.ad_hoc != nullptr
                                     ? &pending.asked.ad_hoc->info
                                     : static_cast<const PublishedPolicy*>(batch.policy.get())->limits.data();
  if (pending.asked.listing != nullptr) [[unlikely]]
    pending.asked.listing->Fill(batch.operations(group).front(), group.result);
  ComposeGroup(infos, pending.counted, batch, group, decision, waited);
  if (group.options.permit != nullptr && pending.asked.ad_hoc == nullptr) [[unlikely]]
    NotePermits(batch, group);
  pending.receiver->Decided(pending.token, &decision);
}

void DeciderImpl::NotePermits(engine::Batch& batch, const engine::Group& group) {
  if (group.result.degraded || group.result.state != engine::GroupState::kDecided) return;
  for (const core::Operation& operation : batch.operations(group)) {
    if (core::IsPermits(*operation.limit) && !operation.skipped)
      notes_.Note(*operation.limit, operation.key, operation.name, batch.policy);
  }
}

Error DeciderImpl::UndecidedError(const engine::Group& group) {
  if (group.result.state != engine::GroupState::kConflict) return UnknownId(group.request_id);
  counters_.totals.conflicts.Add(1);
  return {ErrorKind::kConflict,
          "request_id: another request was made as " + policy::Quoted(group.request_id)};
}

Error DeciderImpl::UnknownId(std::string_view request_id) {
  return {ErrorKind::kNotFound, "request_id: nothing is kept under " + policy::Quoted(request_id)};
}

void DeciderImpl::ComposeGroup(const LimitInfo* infos, bool counted, engine::Batch& batch,
                               engine::Group& group, Decision& decision, Micros waited) {
  const engine::GroupState state = group.result.state;
  if (state == engine::GroupState::kStale || state == engine::GroupState::kStaleClock) [[unlikely]] {
    group.result.state = engine::GroupState::kUnavailable;
    group.result.reason = Reason::kStale;
  }
  ComposeInput input;
  input.operations = batch.operations(group);
  input.result = &group.result;
  input.infos = infos;
  input.on_full = options_.on_full;
  input.partial = group.options.partial;
  input.waited = waited;
  if (group.result.replayed) [[unlikely]] {
    counters_.totals.replayed.Add(1);
  } else if (counted) [[likely]] {
    input.counters = &counters_;
    if (!group.result.replayable) [[unlikely]]
      counters_.totals.not_replayable.Add(1);
  }
  Compose(input, decision);
}

void DeciderImpl::GiveBack(engine::Batch& batch, const engine::Group& group) {
  if (group.options.permit == nullptr || group.result.state != engine::GroupState::kDecided) return;
  // Under its id, where that was kept, it can be asked for again.
  if (!group.request_id.empty() && group.result.replayable) return;
  const engine::PermitId permit = engine::GrantedPermit(batch.operations(group), group.result);
  if (permit.size > 0) permits_.GiveBack(permit);
}

void DeciderImpl::Cancel(const Receiver& receiver, uint64_t token) {
  if (Waiter* const waiter = waiting_room_.Find(receiver, token); waiter != nullptr) return Forsake(*waiter);
  for (const std::unique_ptr<Context>& context : contexts_) {
    if (context == nullptr) continue;
    for (Pending& pending : context->pending) {
      if (pending.receiver == &receiver && pending.token == token) pending.receiver = nullptr;
    }
  }
}

void DeciderImpl::Detach(const Receiver& receiver) {
  ForsakeAllOf(receiver);
  for (const std::unique_ptr<Context>& context : contexts_) {
    if (context == nullptr) continue;
    for (Pending& pending : context->pending) {
      if (pending.receiver == &receiver) pending.receiver = nullptr;
    }
  }
}

}  // namespace penstock::service
