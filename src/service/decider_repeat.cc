// What an engine calls stale: decided again under a newer policy or fresh calendar edges, at once where they are at hand,
// else when they come, and within the deadline that the request had.
#include <algorithm>
#include <utility>

#include "service/decider_impl.h"

namespace penstock::service {

bool DeciderImpl::Repeat(const Context& context, const Pending& pending, engine::Batch& batch,
                         engine::Group& group) {
  if (pending.request == nullptr) return false;
  const engine::GroupState state = group.result.state;
  if (!MayRepeat(*context.policy, pending.repeats, state)) {
    if (state != engine::GroupState::kStale) return false;
    ReportStale(batch, group);
    return Wait(context, pending);
  }
  if (filling_ != nullptr && filling_->policy != policy_.get()) {
    filled_.push_back(std::exchange(filling_, nullptr));
  }
  Context& again = OpenAgain(context.deadline);
  Pending& next = again.pending.emplace_back(pending);
  next.asked.ad_hoc = nullptr;
  ++next.repeats;
  if (!next.request->stable) next.request = Keep(again, *next.request);
  if (state == engine::GroupState::kStaleClock) again.estimate = group.result.now;
  Add(again, *next.request, false);
  return true;
}

DeciderImpl::Context& DeciderImpl::OpenAgain(std::optional<SteadyTime> deadline) {
  if (!deadline) return Open();
  const bool fits = repeating_ != nullptr && repeating_->deadline == deadline &&
                    repeating_->policy == policy_.get() &&
                    repeating_->pending.size() < engine::Batch::kMaxGroups;
  if (!fits) {
    repeating_ = &Acquire();
    repeating_->deadline = deadline;
    filled_.push_back(repeating_);
  }
  return *repeating_;
}

// Which of its limits the engine has newer, for whoever reloads them. An engine that does not say leaves all of them.
void DeciderImpl::ReportStale(engine::Batch& batch, const engine::Group& group) {
  bool told = false;
  for (const core::Operation& operation : batch.operations(group)) {
    const core::Limit& limit = *operation.limit;
    if (!operation.bucket.present || operation.bucket.version <= limit.version) continue;
    store_.ReportStale(limit.domain, limit.name, operation.bucket.version);
    told = true;
  }
  if (told) return;
  for (const core::Operation& operation : batch.operations(group)) {
    store_.ReportStale(operation.limit->domain, operation.limit->name, operation.limit->version + 1);
  }
}

bool DeciderImpl::Wait(const Context& context, const Pending& pending) {
  if (closed_ || options_.timer == nullptr || !context.deadline || pending.repeats == kMaxRepeats)
    return false;
  if (clock_.Steady() >= *context.deadline) return false;
  Context* const waiting = OpenWaiting(*context.deadline);
  if (waiting == nullptr) return false;
  Pending& next = waiting->pending.emplace_back(pending);
  next.asked.ad_hoc = nullptr;
  ++next.repeats;
  if (!next.request->stable) next.request = Keep(*waiting, *next.request);
  return true;
}

DeciderImpl::Context* DeciderImpl::OpenWaiting(SteadyTime deadline) {
  if (!waiting_.empty()) {
    Context& last = *waiting_.back();
    if (last.deadline == deadline && last.pending.size() < engine::Batch::kMaxGroups) return &last;
  }
  if (busy_ >= kMaxBatches) return nullptr;
  Context& context = Acquire();
  context.deadline = deadline;
  context.timer = options_.timer->Schedule(deadline, [this, &context] {
    std::erase(waiting_, &context);
    Resume(context, Reason::kStale);
    flush_later_.Post();
  });
  waiting_.push_back(&context);
  return &context;
}

void DeciderImpl::Resume(Context& context, Reason refusal) {
  context.refusal = refusal;
  context.policy = policy_.get();
  context.batch.policy = policy_;
  // Add speaks of the last of `pending`.
  const std::vector<Pending> requests = std::exchange(context.pending, {});
  for (const Pending& request : requests) {
    context.pending.push_back(request);
    Add(context, *request.request, false);
  }
  filled_.push_back(&context);
}

void DeciderImpl::ResumeAll(Reason refusal) {
  for (Context* context : std::exchange(waiting_, {})) {
    options_.timer->Cancel(context->timer);
    Resume(*context, refusal);
  }
  flush_later_.Post();
}

void DeciderImpl::Close() {
  closed_ = true;
  ResumeAll(Reason::kShuttingDown);
  RefuseWaiting();
  Flush();
}

}  // namespace penstock::service
