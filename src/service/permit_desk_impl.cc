#include "service/permit_desk_impl.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/params.h"
#include "engine/permit_id.h"

namespace penstock::service {

PermitDeskImpl::PermitDeskImpl(engine::EngineSession& session, Executor& executor, const Clock& clock,
                               Timer* timer, std::optional<Micros> timeout, LoopCounters& counters)
    : session_(session),
      clock_(clock),
      timer_(timer),
      timeout_(timeout),
      counters_(counters),
      flush_later_(executor, [this] { Flush(); }) {}

PermitDeskImpl::~PermitDeskImpl() { Close(); }

void PermitDeskImpl::Release(std::string_view id, PermitReceiver& receiver, uint64_t token) {
  Add(id, engine::PermitVerb::kRelease, {}, {&receiver, token});
}

void PermitDeskImpl::Renew(std::string_view id, std::chrono::milliseconds lease, PermitReceiver& receiver,
                           uint64_t token) {
  Add(id, engine::PermitVerb::kRenew, Millis(lease.count()), {&receiver, token});
}

void PermitDeskImpl::GiveBack(const engine::PermitId& permit) {
  counters_.totals.permits_handed_back.Add(1);
  Add(permit, engine::PermitVerb::kRelease, {}, {});
  flush_later_.Post();
}

void PermitDeskImpl::Leave(const engine::PermitId& permit) {
  Add(permit, engine::PermitVerb::kLeave, {}, {});
  flush_later_.Post();
}

void PermitDeskImpl::Detach(const PermitReceiver& receiver) {
  for (const std::unique_ptr<Run>& run : runs_) {
    for (std::vector<Asker>* askers : {&run->askers, &run->strangers}) {
      for (Asker& asker : *askers) {
        if (asker.receiver == &receiver) asker.receiver = nullptr;
      }
    }
  }
}

PermitDeskImpl::Run& PermitDeskImpl::Open() {
  if (filling_ != nullptr) {
    if (filling_->askers.size() + filling_->strangers.size() < kMaxRun) return *filling_;
    filled_.push_back(std::exchange(filling_, nullptr));
  }
  if (idle_.empty()) {
    idle_.push_back(runs_.emplace_back(std::make_unique<Run>()).get());
    idle_.back()->number = static_cast<uint32_t>(runs_.size() - 1);
  }
  filling_ = idle_.back();
  idle_.pop_back();
  return *filling_;
}

void PermitDeskImpl::Add(std::string_view id, engine::PermitVerb verb, Micros lease, const Asker& asker) {
  if (const std::optional<engine::PermitId> permit = engine::ParsePermitId(id)) {
    return Add(*permit, verb, lease, asker);
  }
  Open().strangers.push_back(asker);
}

void PermitDeskImpl::Add(const engine::PermitId& permit, engine::PermitVerb verb, Micros lease,
                         const Asker& asker) {
  Run& run = Open();
  engine::PermitCall& call = run.calls.emplace_back();
  call.verb = verb;
  call.permit = permit;
  call.lease = lease;
  call.token = uint64_t{run.number} << 32 | (run.calls.size() - 1);
  run.askers.push_back(asker);
}

void PermitDeskImpl::Flush() {
  if (std::exchange(inside_, true)) {
    flush_wanted_ = true;
    return;
  }
  // Ends when the receivers stop asking again.
  while (!filled_.empty() || filling_ != nullptr) {
    Run* run = nullptr;
    if (filled_.empty()) {
      run = std::exchange(filling_, nullptr);
    } else {
      run = filled_.front();
      filled_.erase(filled_.begin());
    }
    Hand(*run);
  }
  inside_ = false;
  flush_wanted_ = false;
}

void PermitDeskImpl::Hand(Run& run) {
  run.open = run.calls.size() + 1;
  if (runs_.size() - idle_.size() > kMaxRuns) {
    for (engine::PermitCall& call : run.calls) {
      call.reason = Reason::kOverload;
      Called(call);
    }
  } else if (!run.calls.empty()) {
    const SteadyTime deadline =
        timeout_ ? clock_.Steady() + *timeout_ : SteadyTime{std::numeric_limits<int64_t>::max()};
    session_.CallPermits(run.calls, deadline, *this);
  }
  for (const Asker& asker : run.strangers) {
    counters_.totals.permits_unknown.Add(1);
    if (asker.receiver != nullptr)
      asker.receiver->PermitAnswered(asker.token, {.fate = core::PermitFate::kUnknown});
  }
  if (--run.open == 0) Free(run);
}

void PermitDeskImpl::Free(Run& run) {
  run.calls.clear();
  run.askers.clear();
  run.strangers.clear();
  if (idle_.size() >= kMaxIdleRuns) {
    run.calls.shrink_to_fit();
    run.askers.shrink_to_fit();
  }
  idle_.push_back(&run);
}

void PermitDeskImpl::Called(engine::PermitCall& call) noexcept {
  const bool outside = !std::exchange(inside_, true);  // an engine that answers later
  Run& run = *runs_[call.token >> 32];
  const Asker asker = run.askers[static_cast<uint32_t>(call.token)];
  Count(call, asker.repeated);
  const bool unavailable = call.fate == core::PermitFate::kUnavailable;
  if (asker.repeated) {
    --repeating_;
    if (!unavailable) pause_ = kFirstPause;
  }
  if (unavailable && call.verb == engine::PermitVerb::kRelease) Keep(call, asker);
  if (asker.receiver != nullptr) {
    asker.receiver->PermitAnswered(
        asker.token, {call.fate, call.reason, std::chrono::microseconds(call.expires_in.count)});
  }
  if (asker.repeated && repeating_ == 0 && !kept_.empty()) {
    // Since somebody answered the rest may go at once.
    Arm(unavailable ? std::exchange(pause_, std::min(pause_ * 2, kLongestPause)) : Micros{});
  }
  if (--run.open == 0) Free(run);
  if (!outside) return;
  inside_ = false;
  if (std::exchange(flush_wanted_, false)) flush_later_.Post();
}

void PermitDeskImpl::Count(const engine::PermitCall& call, bool repeated) {
  if (call.verb == engine::PermitVerb::kLeave) return;
  LoopTotals& totals = counters_.totals;
  switch (call.fate) {
    case core::PermitFate::kReleased:
      totals.permits_released.Add(1);
      break;
    case core::PermitFate::kRenewed:
      totals.permits_renewed.Add(1);
      break;
    case core::PermitFate::kExpired:
      totals.permits_expired.Add(1);
      break;
    case core::PermitFate::kUnknown:
      totals.permits_unknown.Add(1);
      break;
    case core::PermitFate::kUnavailable:
      if (!repeated) totals.permits_unavailable.Add(1);
      break;
  }
}

void PermitDeskImpl::Keep(const engine::PermitCall& call, const Asker& asker) {
  const SteadyTime now = clock_.Steady();
  // The lease is not known here, but no lease is longer than that, and none is renewed any more.
  const SteadyTime give_up = asker.repeated ? asker.give_up : now + core::kMaxLease;
  if (closed_ || timer_ == nullptr || kept_.size() >= kMaxKept || now >= give_up) {
    counters_.totals.releases_lost.Add(1);
    return;
  }
  kept_.push_back({call.permit, give_up});
  if (!armed_ && repeating_ == 0 && !asker.repeated) Arm(pause_);
}

void PermitDeskImpl::Arm(Micros pause) {
  if (armed_ || closed_ || timer_ == nullptr) return;
  armed_ = true;
  repeat_timer_ = timer_->Schedule(clock_.Steady() + pause, [this] {
    armed_ = false;
    Repeat();
  });
}

void PermitDeskImpl::Repeat() {
  const size_t count = std::min(kept_.size(), kMaxRepeated);
  for (size_t i = 0; i < count; ++i) {
    const Kept kept = kept_.front();
    kept_.pop_front();
    Add(kept.permit, engine::PermitVerb::kRelease, {}, {.repeated = true, .give_up = kept.give_up});
    ++repeating_;
  }
  counters_.totals.releases_repeated.Add(count);
  Flush();
}

void PermitDeskImpl::Close() {
  closed_ = true;
  if (armed_) timer_->Cancel(repeat_timer_);
  armed_ = false;
  counters_.totals.releases_lost.Add(kept_.size());
  kept_.clear();
}

}  // namespace penstock::service
