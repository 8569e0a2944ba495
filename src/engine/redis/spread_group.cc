#include "engine/redis/spread_group.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "engine/redis/binding.h"
#include "engine/redis/keys.h"
#include "penstock/request.h"

namespace penstock::engine::redis {
namespace {

bool Charges(const Group& group, std::span<const core::Operation> operations) {
  return group.mode == Mode::kCheck && !group.options.dry &&
         std::any_of(operations.begin(), operations.end(),
                     [](const core::Operation& operation) { return operation.cost != 0; });
}

}  // namespace

SpreadGroup::SpreadGroup(Asker& asker, UndoQueue& undo, std::string_view prefix, const SpreadRequest& request,
                         std::span<const int32_t> slots, std::function<void(SpreadGroup&)> finished)
    : asker_(asker), undo_(undo), prefix_(prefix), request_(request), finished_(std::move(finished)) {
  for (const core::Operation& operation : request_.batch.operations(request_.group)) {
    costs_.push_back(operation.cost);
  }
  MakeParts(slots);
}

void SpreadGroup::MakeParts(std::span<const int32_t> slots) {
  const std::span<core::Operation> operations = request_.batch.operations(request_.group);
  for (uint32_t i = 0; i < operations.size(); ++i) {
    auto part =
        std::find_if(parts_.begin(), parts_.end(), [&](const Part& known) { return known.slot == slots[i]; });
    if (part == parts_.end()) {
      parts_.emplace_back().slot = slots[i];
      part = parts_.end() - 1;
    }
    part->operations.push_back(i);
    part->enforced |= !operations[i].limit->shadow;
    part->refunds |= operations[i].cost < 0;
  }
  // Those that cannot refuse come last: a shadow limit is charged only for what is allowed, and a refund is taken back
  // in whole costs only.
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
    if (a.enforced != b.enforced) return a.enforced;
    return a.refunds != b.refunds ? b.refunds : a.slot < b.slot;
  });
}

void SpreadGroup::Start() {
  if (!Charges(request_.group, request_.batch.operations(request_.group))) {
    phase_ = Phase::kAll;
    return AskAll(false);
  }
  const core::GroupOptions& options = request_.group.options;
  if (options.partial && !options.force) {
    phase_ = Phase::kLook;
    return AskAll(true);
  }
  phase_ = Phase::kDebit;
  AskPart(0, false);
}

void SpreadGroup::Fill(Part& part, bool dry) {
  const Group& whole = request_.group;
  part.batch.Clear();
  Group& group = part.batch.AddGroup();
  group.mode = whole.mode;
  group.options = whole.options;
  group.options.dry = dry || whole.options.dry;
  if (phase_ == Phase::kDebit && whole.options.partial) {  // the cost is known by now
    group.options.partial = false;
    group.options.max_wait = {};
  }
  group.domain = whole.domain;
  // A look that meets the id is told the first answer.
  if (!dry || phase_ == Phase::kLook) group.request_id = whole.request_id;
  group.keep_id_anyway = phase_ == Phase::kDebit;
  group.fingerprint = whole.fingerprint;
  group.keep_id = whole.keep_id;
  const std::span<core::Operation> operations = request_.batch.operations(whole);
  for (const uint32_t number : part.operations) {
    const core::Operation& from = operations[number];
    core::Operation& to = part.batch.AddOperationInPlace(*from.limit, from.key);
    to.cost = phase_ == Phase::kDebit ? costs_[number] : from.cost;
    to.unit = from.unit;
    to.boundaries = from.boundaries;
    to.charge = from.charge;
  }
}

void SpreadGroup::AskPart(size_t index, bool dry) {
  Part& part = parts_[index];
  Fill(part, dry);
  part.failed = false;
  Group& group = part.batch.groups()[0];
  group.token = index;
  ++open_;
  asker_.Ask(part.batch, group, part.slot, request_.deadline, *this);
}

void SpreadGroup::AskAll(bool dry) {
  for (size_t i = 0; i < parts_.size(); ++i) AskPart(i, dry);
}

void SpreadGroup::Decided(Batch&, Group& group) noexcept {
  Part& part = parts_[group.token];
  --open_;
  if (phase_ == Phase::kDebit) return Debited(part);
  part.failed = group.result.state == GroupState::kUnavailable;
  if (open_ > 0) return;
  if (phase_ == Phase::kLook) return LookedAt();
  AllAnswered();
}

// What every unit has: the smallest of what is asked and what each enforced limit has.
void SpreadGroup::LookedAt() {
  bool decided = true, replayed = true;
  for (Part& part : parts_) {
    replayed &= part.batch.groups()[0].result.replayed;
    decided &= part.batch.groups()[0].result.state == GroupState::kDecided || !part.enforced;
    if (part.enforced && !part.failed) decided &= !Refuses(part);
  }
  if (replayed || !decided || ++looks_ > kMaxLooks) return AllAnswered();
  const std::span<core::Operation> operations = request_.batch.operations(request_.group);
  std::array<int64_t, UINT8_MAX + 1> most;  // by unit
  most.fill(kMaxCost);
  for (Part& part : parts_) {
    for (const core::Operation& looked : OperationsOf(part)) {
      if (looked.limit->shadow || looked.cost <= 0) continue;
      int64_t& unit = most[looked.unit];
      unit = std::min(unit, looked.cost);
      const bool told = !part.batch.groups()[0].result.replayed && looked.verdict.limit >= 0;
      if (told) unit = std::min(unit, looked.verdict.remaining);
    }
  }
  for (uint32_t i = 0; i < operations.size(); ++i) {
    const int64_t cost = operations[i].cost;
    costs_[i] = cost > 0 ? std::min(cost, most[operations[i].unit]) : cost;
  }
  phase_ = Phase::kDebit;
  next_ = 0;
  AskPart(0, false);
}

void SpreadGroup::Debited(Part& part) {
  const GroupResult& result = part.batch.groups()[0].result;
  part.failed = result.state == GroupState::kUnavailable;
  if (result.state != GroupState::kDecided) {
    // What only watches may fail without anybody noticing but the counters.
    if (part.failed && !part.enforced) return DebitNext();
    return GiveUp(result);
  }
  if (part.enforced && !result.replayed && Refuses(part)) return Refused(part);
  part.charged = true;
  DebitNext();
}

void SpreadGroup::DebitNext() {
  if (++next_ < parts_.size()) return AskPart(next_, false);
  AllAnswered();
}

void SpreadGroup::TakeBack() {
  for (Part& part : parts_) {
    if (!std::exchange(part.charged, false)) continue;  // perhaps never asked: then it has no group
    const Group& group = part.batch.groups()[0];
    if (group.result.replayed) continue;
    std::vector<Undo> charges;
    for (const core::Operation& operation : OperationsOf(part)) {
      if (operation.charge.cost == 0) continue;
      Undo& undo = charges.emplace_back();
      undo.limit = BindingOf(*operation.limit).packed;
      undo.charge = operation.charge;
      undo.shadow = operation.limit->shadow;
      undo.decided = group.result.now;
      if (core::IsPermits(*operation.limit)) undo.permit = group.result.permit_id;
      undo.unless_replayed = true;
      BindingOf(*operation.limit).keys.Append(undo.key, operation.key);
      if (!group.request_id.empty() && group.result.replayable) {  // else the id was not kept
        AppendIdKey(undo.id_key, prefix_, part.slot, group.domain, group.request_id);
      }
    }
    if (!charges.empty()) undo_.Add(std::move(charges), part.slot);
  }
}

void SpreadGroup::GiveUp(const GroupResult& result) {
  const GroupResult last = result;
  TakeBack();
  Finish(last);
}

// The others are judged as they are once their debits are back: the undo goes to each server before the question.
void SpreadGroup::Refused(Part& part) {
  TakeBack();
  if (request_.group.options.partial && looks_ < kMaxLooks) {
    phase_ = Phase::kLook;
    return AskAll(true);
  }
  phase_ = Phase::kJudge;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (&parts_[i] != &part) AskPart(i, true);
  }
  if (open_ == 0) AllAnswered();
}

void SpreadGroup::CopyOut(Part& part) {
  const std::span<core::Operation> to = request_.batch.operations(request_.group);
  const std::span<core::Operation> from = OperationsOf(part);
  for (size_t i = 0; i < from.size(); ++i) {
    core::Operation& operation = to[part.operations[i]];
    operation.verdict = part.failed ? core::Verdict{} : from[i].verdict;
    operation.charge = part.failed ? core::Charge{} : from[i].charge;
    operation.skipped = !part.failed && from[i].skipped;
    operation.named = from[i].named;
    operation.name = from[i].name;
  }
}

// One answer of the parts': what could not be decided outweighs, except where a look or judgement is all that is
// missing of a refusal.
void SpreadGroup::AllAnswered() {
  GroupResult result{.state = GroupState::kDecided};
  bool all_unknown = true, all_replayed = true, refused = phase_ == Phase::kJudge;
  for (Part& part : parts_) {
    const GroupResult& one = part.batch.groups()[0].result;
    if (one.state == GroupState::kStale || one.state == GroupState::kStaleClock ||
        one.state == GroupState::kConflict) {
      return GiveUp(one);
    }
    all_unknown &= one.state == GroupState::kUnknownId;
    all_replayed &= one.replayed;
    result.replayable &= one.replayable;
    result.now = std::max(result.now, one.now);
    if (one.permit_id != Hash128{}) result.permit_id = one.permit_id;
    if (one.state == GroupState::kDecided && part.enforced) refused |= Refuses(part);
  }
  if (all_unknown) return Finish(parts_[0].batch.groups()[0].result);
  result.replayed = all_replayed;
  for (Part& part : parts_) {
    if (part.failed && part.enforced && !refused) return GiveUp(part.batch.groups()[0].result);
    CopyOut(part);
    if (part.batch.groups()[0].result.state == GroupState::kUnknownId) {
      for (const uint32_t number : part.operations) {
        request_.batch.operations(request_.group)[number].skipped = true;
      }
    }
  }
  SettleQueues(result);
  Finish(result);
}

void SpreadGroup::SettleQueues(GroupResult& result) {
  const core::PermitAsk* const ask = request_.group.options.permit;
  const std::span<core::Operation> operations = request_.batch.operations(request_.group);
  if (ask == nullptr || ask->queue_for.count <= 0 || request_.group.mode != Mode::kCheck || result.replayed)
    return;
  if (core::GroupOutcome(operations) == Outcome::kAllowed) return;
  const bool waits = core::PermitsAloneRefuse(operations);
  for (Part& part : parts_) {
    const GroupResult& one = part.batch.groups()[0].result;
    if (waits && !part.failed && one.queued && !result.queued) {
      result.queued = true;
      result.ask_again_after = one.ask_again_after;
      continue;
    }
    for (const uint32_t number : part.operations) {
      core::Operation& operation = operations[number];
      if (!core::IsPermits(*operation.limit)) continue;
      operation.verdict.queued = false;
      asker_.LeaveQueue(ask->id, operation.name);
    }
  }
}

void SpreadGroup::Finish(const GroupResult& result) {
  request_.group.result = result;
  if (result.state != GroupState::kDecided) {
    for (core::Operation& operation : request_.batch.operations(request_.group)) {
      operation.verdict = {};
      operation.charge = {};
      operation.skipped = false;
    }
  }
  request_.sink.Decided(request_.batch, request_.group);
  finished_(*this);
}

}  // namespace penstock::engine::redis
