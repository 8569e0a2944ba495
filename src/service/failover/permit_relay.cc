#include "service/failover/permit_relay.h"

#include <algorithm>
#include <limits>

namespace penstock::service {
namespace {

using core::PermitFate;
using engine::PermitCall;
using engine::PermitVerb;

constexpr SteadyTime kNoDeadline{std::numeric_limits<int64_t>::max()};

struct NoPermitSink final : engine::PermitSink {
  void Called(PermitCall&) noexcept override {}
};

// Puts the fate of one place to those before.
void Join(PermitCall& call, const PermitCall& part) {
  if (part.fate == PermitFate::kRenewed) {
    call.expires_in =
        call.expires_in.count == 0 ? part.expires_in : std::min(call.expires_in, part.expires_in);
  }
  if (part.fate == PermitFate::kUnavailable) call.reason = part.reason;
  call.fate = core::Together(call.fate, part.fate);
}

}  // namespace

void PermitRelay::Call(std::span<PermitCall> calls, SteadyTime deadline, engine::PermitSink& sink) noexcept {
  size_t begin = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].permit.local) continue;
    if (i > begin) remote_.CallPermits(calls.subspan(begin, i - begin), deadline, sink);
    CallLocal(calls[i], deadline, sink);
    begin = i + 1;
  }
  if (begin < calls.size()) remote_.CallPermits(calls.subspan(begin), deadline, sink);
}

void PermitRelay::CallLocal(PermitCall& call, SteadyTime deadline, engine::PermitSink& sink) {
  const std::optional<LocalPermit> permit = node_.permits.Find(call.permit.id);
  if (!permit)
    return remote_.CallPermits({&call, 1}, deadline, sink);  // another node's, which has told it or not
  Forward forward{.call = call, .original = &call, .sink = &sink};
  forward.call.permit.size = 0;
  call.fate = engine::DoneFate(call.verb);
  call.reason = Reason::kNone;
  call.expires_in = {};
  for (size_t i = 0; i < permit->size; ++i) {
    const LocalPermit::Place& place = permit->places[i];
    if (AskHere(call.permit.id, *permit, place, call)) continue;
    forward.call.permit.places[forward.call.permit.size++] = place.remote;
  }
  if (forward.call.permit.size == 0) return sink.Called(call);
  forwards_.push_back(forward);
  remote_.CallPermits({&forwards_.back().call, 1}, deadline, *this);
}

bool PermitRelay::AskHere(const Hash128& id, const LocalPermit& permit, const LocalPermit::Place& place,
                          PermitCall& call) {
  LocalBooks::Shard& shard = node_.books.ShardOf(place.book);
  MutexLock lock(shard.mutex);
  LocalBucket* const bucket = shard.Find(place.book);
  if (bucket == nullptr || !bucket->use.OwesPermit(id)) return false;
  PermitCall part{
      .verb = call.verb, .permit = {.id = id, .weight = permit.weight, .size = 1}, .lease = call.lease};
  part.permit.places[0] = place.local;
  NoPermitSink nobody;
  local_.CallPermits({&part, 1}, kNoDeadline, nobody);
  const EngineTime now = local_.EstimateNow();
  if (part.fate == PermitFate::kReleased) bucket->use.ForgetPermit(id);
  if (part.fate == PermitFate::kRenewed) {
    bucket->use.RenewPermit(id, now + part.expires_in);
    node_.permits.Renew(id, now + part.expires_in * 2);
  }
  if (bucket->in_flight > 0) return false;  // the engine may hold it by the time it hears of this
  Join(call, part);
  return true;
}

void PermitRelay::Called(PermitCall& call) noexcept {
  const auto at = std::find_if(forwards_.begin(), forwards_.end(),
                               [&call](const Forward& forward) { return &forward.call == &call; });
  PermitCall& original = *at->original;
  engine::PermitSink& sink = *at->sink;
  Join(original, call);
  forwards_.erase(at);
  sink.Called(original);
}

}  // namespace penstock::service
