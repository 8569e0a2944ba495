// Waiting for a permit (rule E8). Where nothing but permits refuses, the engine puts the asker into the queue of a
// bucket and says so; the request then leaves its batch and is kept here, so that nothing else waits for it. It is asked
// again, under the same permit id and with what is left of its max_wait, when the engine wakes it or by the clock.
//
// The last asking, when max_wait has passed, brings no time to queue for: it leaves the queue, and its refusal has the
// newest retry_after; a permit that comes free at that instant is not lost between two calls.
#include <algorithm>
#include <utility>

#include "engine/permit_id.h"
#include "service/decider_impl.h"

namespace penstock::service {
namespace {

// The queue in which the group's asker stands.
engine::PermitId PlaceOf(engine::Batch& batch, const engine::Group& group) {
  engine::PermitId place{.id = group.options.permit->id, .local = group.result.degraded};
  for (const core::Operation& operation : batch.operations(group)) {
    if (!operation.verdict.queued || place.size == engine::kMaxPermitBuckets) continue;
    place.weight = static_cast<uint32_t>(std::max<int64_t>(operation.cost, 1));
    place.places[place.size++] = {operation.name, 0};
  }
  return place;
}

// Whether the engine, having decided the group, has seen to the asker's place in that queue. One that gives an earlier
// answer again has not.
bool HasSeenTo(const engine::PermitId& place, engine::Batch& batch, const engine::Group& group) {
  if (group.result.state != engine::GroupState::kDecided || group.result.replayed ||
      group.result.degraded != place.local) {
    return false;
  }
  for (const core::Operation& operation : batch.operations(group)) {
    if (core::IsPermits(*operation.limit) && operation.name == place.places[0].bucket) {
      return true;
    }
  }
  return false;
}

}  // namespace

Micros DeciderImpl::WaitLeft(const Request& request, const Asked& asked) const {
  if (options_.timer == nullptr || draining_ || closed_) return {};
  if (asked.waiter == nullptr) return Millis(request.options.max_wait.count());
  return std::max(asked.waiter->until - clock_.Steady(), Micros{});
}

SteadyTime DeciderImpl::AskedAt(const Context& context) const {
  return context.deadline && options_.timeout ? *context.deadline - *options_.timeout : clock_.Steady();
}

void DeciderImpl::AnswerWaiting(const Context& context, const Pending& pending, engine::Batch& batch,
                                engine::Group& group) {
  const bool queued = group.result.state == engine::GroupState::kDecided && group.result.queued;
  Waiter* waiter = pending.asked.waiter;
  if (waiter == nullptr) {
    waiter = pending.receiver == nullptr ? nullptr : BeginWait(context, pending);
    if (waiter == nullptr) {
      permits_.Leave(PlaceOf(batch, group));
      if (pending.receiver != nullptr) AnswerGroup(pending, batch, group);
      return;
    }
  } else if (!HasSeenTo(waiter->place, batch, group)) {
    permits_.Leave(waiter->place);
  }
  waiter->asking = false;
  if (queued && !closed_) {
    waiting_room_.SetPlace(*waiter, PlaceOf(batch, group));
    return waiter->receiver == nullptr ? Forsake(*waiter) : Rest(*waiter, group.result.ask_again_after);
  }
  if (queued) permits_.Leave(PlaceOf(batch, group));
  Pending answer = pending;
  answer.receiver = waiter->receiver;
  const Micros waited = AskedAt(context) - waiter->since;
  const std::unique_ptr<std::byte[]> bytes = std::move(waiter->bytes);  // the group's views are read below
  EndWait(*waiter);
  if (answer.receiver != nullptr) {
    AnswerGroup(answer, batch, group, waited);
  } else {
    GiveBack(batch, group);
  }
}

Waiter* DeciderImpl::BeginWait(const Context& context, const Pending& pending) {
  Waiter* const waiter = closed_ || pending.request == nullptr
                             ? nullptr
                             : waiting_room_.Add(pending.asked.permit, pending.receiver, pending.token);
  if (waiter == nullptr) {
    counters_.totals.waits_refused.Add(1);
    return nullptr;
  }
  counters_.totals.permits_waiting.Add(1);
  waiter->into = pending.into;
  waiter->counted = pending.counted;
  waiter->request = pending.request;
  if (!pending.request->stable) {
    waiter->bytes = std::make_unique<std::byte[]>(KeptBytes(*pending.request));
    Request* const copy = CopyTo(waiter->bytes.get(), *pending.request);
    copy->stable = true;  // as long as he waits: no batch need copy it again
    waiter->request = copy;
  }
  waiter->since = AskedAt(context);
  waiter->until = waiter->since + Millis(pending.request->options.max_wait.count());
  return waiter;
}

void DeciderImpl::Rest(Waiter& waiter, Micros ask_again_after) {
  const SteadyTime now = clock_.Steady();
  waiter.due = now + std::max(ask_again_after, WaitingRoom::kAtLeast);
  if (std::exchange(waiter.woken, false) || draining_) return AskAgain(waiter);
  Arm(waiter, now + WaitingRoom::AskAfter(waiter, ask_again_after));
}

void DeciderImpl::Arm(Waiter& waiter, SteadyTime at) {
  Disarm(waiter);
  waiter.armed = true;
  waiter.asks_at = std::min(at, waiter.until);
  waiter.timer = options_.timer->Schedule(waiter.asks_at, [this, &waiter] {
    waiter.armed = false;
    AskAgain(waiter);
  });
}

void DeciderImpl::Disarm(Waiter& waiter) {
  if (std::exchange(waiter.armed, false)) options_.timer->Cancel(waiter.timer);
}

void DeciderImpl::Woken(const Hash128& permit_id) noexcept {
  Waiter* const waiter = waiting_room_.Find(permit_id);
  if (waiter != nullptr) AskAgain(*waiter);
}

void DeciderImpl::AskAgain(Waiter& waiter) {
  if (waiter.asking) {
    waiter.woken = true;
    return;
  }
  Disarm(waiter);
  waiter.asking = true;
  counters_.totals.asked_again.Add(1);
  // Matched anew: by the policy at hand.
  if (filling_ != nullptr && filling_->policy != policy_.get()) {
    filled_.push_back(std::exchange(filling_, nullptr));
  }
  Context& context = Open();
  Pending& pending = context.pending.emplace_back();
  pending.receiver = waiter.receiver;
  pending.token = waiter.token;
  pending.request = waiter.request;
  pending.into = waiter.into;
  pending.asked.permit = waiter.permit;
  pending.asked.waiter = &waiter;
  pending.counted = waiter.counted;
  Add(context, *waiter.request, false);
  flush_later_.Post();
}

// In the order in which they came: who asked before the head would be refused, and had to be woken again.
void DeciderImpl::AskAllAgain() {
  for (Waiter& waiter : waiting_room_.all()) AskAgain(waiter);
}

void DeciderImpl::EndWait(Waiter& waiter) {
  Disarm(waiter);
  counters_.totals.permits_waiting.Subtract(1);
  // The next may be the head of the queue now, and then has to ask as soon as an expiry may help: when this one was to.
  if (Waiter* const next = WaitingRoom::NextFirst(waiter); next != nullptr && next->armed) {
    next->due = std::min(next->due, waiter.due);
    if (next->due < next->asks_at) Arm(*next, next->due);
  }
  waiting_room_.Remove(waiter);
}

void DeciderImpl::Forsake(Waiter& waiter) {
  waiter.receiver = nullptr;
  if (waiter.asking) return;  // what comes of it is given back, or the queue left then
  permits_.Leave(waiter.place);
  EndWait(waiter);
}

void DeciderImpl::ForsakeAllOf(const Receiver& receiver) {
  for (auto at = waiting_room_.all().begin(); at != waiting_room_.all().end();) {
    Waiter& waiter = *at++;
    if (waiter.receiver == &receiver) Forsake(waiter);
  }
}

// Not as unavailable: the engine is there, and on_failure: allow would let them all through without a permit.
void DeciderImpl::Drain() {
  draining_ = true;
  AskAllAgain();
}

void DeciderImpl::RefuseWaiting() {
  for (Waiter& waiter : waiting_room_.all()) {
    if (waiter.asking) continue;
    if (filling_ != nullptr && filling_->refusal != Reason::kShuttingDown) {
      filled_.push_back(std::exchange(filling_, nullptr));
    }
    AskAgain(waiter);
    filling_->refusal = Reason::kShuttingDown;
  }
}

}  // namespace penstock::service
