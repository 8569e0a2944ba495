// Judges the answers to what permit_player.cc asked.
#include <algorithm>
#include <sstream>

#include "core/group.h"
#include "redis/permit_player.h"

namespace penstock::fixtures {
namespace {

using engine::GroupState;
using engine::redis::ScriptCall;

constexpr size_t kRemembered = 8;
constexpr size_t kRecords = 4;

std::string Show(const core::Verdict& v) {
  std::ostringstream out;
  out << ToString(v.outcome) << " limit " << v.limit << " remaining " << v.remaining << " taken " << v.taken
      << " retry " << v.retry_after.count << " reset " << v.reset_after.count << " wait " << v.wait.count
      << (v.saturated ? " saturated" : "") << (v.queued ? " queued" : "");
  return out.str();
}

std::string Show(const core::Charge& c) {
  std::ostringstream out;
  out << "cost " << c.cost;
  if (c.cost != 0)
    out << " at " << c.at.us << " window " << c.window.us << " before " << c.debt_before << " version "
        << c.version;
  return out.str();
}

std::string Show(const engine::HolderList& list) {
  std::ostringstream out;
  out << "in use " << list.in_use << " held " << list.held << " waiting " << list.waiting
      << (list.more ? " more" : "");
  for (const engine::HolderList::Entry& entry : list.entries)
    out << "; " << entry.id.low << " weight " << entry.weight << " fence " << entry.fence << " for "
        << entry.expires_in.count << " " << entry.holder;
  return out.str();
}

// When he who stands in a queue asks again by himself.
Micros AskAgainAfter(const core::Operation& operation) {
  if (operation.bucket.overtakes) return Seconds(45);
  return std::clamp(operation.verdict.retry_after, Millis(1), Seconds(1));
}

}  // namespace

std::vector<core::Operation> PermitPlayer::Found(Asked& asked) {
  std::vector<core::Operation> judged;
  for (size_t i = 0; i < asked.places.size(); ++i) {
    core::Operation& operation = judged.emplace_back();
    operation.limit = asked.operations[i]->limit;
    operation.cost = asked.operations[i]->cost;
    operation.unit = asked.operations[i]->unit;
    operation.bucket = buckets_[asked.places[i]].View(asked.ask.id, asked.session, asked.word, now_);
  }
  return judged;
}

void PermitPlayer::Compare(const Asked& asked, size_t i, const core::Operation& judged) {
  const core::Operation& told = *asked.operations[i];
  const std::string at = "limit " + std::to_string(asked.places[i]);
  if (told.skipped) return Fail(at + " was skipped");
  const std::string verdict = Show(told.verdict);
  if (verdict != Show(judged.verdict))
    return Fail(at + "\n  redis: " + verdict + "\n  judge: " + Show(judged.verdict));
  if (Show(told.charge) != Show(judged.charge))
    return Fail(at + "\n  redis: charge " + Show(told.charge) + "\n  judge: charge " + Show(judged.charge));
}

void PermitPlayer::JudgeAnswer(Asked& asked, const ScriptCall::Sent& sent) {
  step_ = asked.kind == PermitStep::Kind::kAskAgain || asked.kind == PermitStep::Kind::kRepeat ? step_
                                                                                               : asked.step;
  if (sent.answer != ScriptCall::Answer::kDecided)
    return Fail("answer " + std::to_string(static_cast<int>(sent.answer)));
  const engine::GroupResult& result = asked.batch.groups()[0].result;
  if (result.now != now_) return Fail("another clock than the call's");
  switch (asked.kind) {
    case Kind::kList:
      return JudgeList(asked);
    case Kind::kReset:
      return JudgeReset(asked);
    case Kind::kReport:
    case Kind::kAdjust:
      return JudgeAdjust(asked);
    case Kind::kStale: {
      if (tally_ != nullptr) ++tally_->stale;
      // Nothing is stored: not even who is found to wait no more.
      JudgedBucket& bucket = buckets_[asked.places[0]];
      JudgedBucket copy = bucket;
      core::Operation operation;
      operation.limit = asked.operations[0]->limit;
      operation.bucket = copy.View(asked.ask.id, asked.session, asked.word, now_);
      if (core::DecideGroup({&operation, 1}, {}, now_) != core::GroupStatus::kStale)
        return Fail("the judge does not find it stale");
      if (result.state != GroupState::kStale || result.replayed) Fail("not stale");
      return;
    }
    default:
      break;
  }
  Record* const record = asked.record.get();
  if (record != nullptr && record->kept && now_ < record->expires) return JudgeReplay(asked, *record);
  JudgeCheck(asked, sent);
}

void PermitPlayer::JudgeCheck(Asked& asked, const ScriptCall::Sent& sent) {
  const engine::Group& group = asked.batch.groups()[0];
  const engine::GroupResult& result = group.result;
  std::vector<core::Operation> judged = Found(asked);
  core::GroupOptions options = group.options;
  if (core::DecideGroup(judged, options, now_) != core::GroupStatus::kDecided)
    return Fail("the judge finds it stale");
  if (result.state != GroupState::kDecided || result.replayed || !result.replayable)
    return Fail("state " + std::to_string(static_cast<int>(result.state)) +
                (result.replayed ? ", replayed" : ""));
  bool holds = false;
  bool queued = false;
  bool charged = false;
  Micros again{};
  for (size_t i = 0; i < judged.size(); ++i) {
    Compare(asked, i, judged[i]);
    charged = charged || judged[i].charge.cost != 0;
    holds = holds || (asked.places[i] != kRate && judged[i].charge.cost > 0);
    queued = queued || judged[i].verdict.queued;
    if (judged[i].verdict.queued) again = AskAgainAfter(judged[i]);
  }
  if (result.queued != queued || result.ask_again_after != again)
    Fail("queued " + std::to_string(result.queued) + " for " + std::to_string(result.ask_again_after.count) +
         ", the judge for " + std::to_string(again.count));
  if (result.permit_id != (holds ? asked.ask.id : Hash128{}))
    Fail("permit " + std::to_string(result.permit_id.low) + (holds ? ", was granted" : ", was not granted"));
  if (!difference_.empty()) return;
  for (size_t i = 0; i < judged.size(); ++i)
    buckets_[asked.places[i]].Apply(*judged[i].limit, judged[i], asked.ask, asked.session, now_);
  if (asked.record != nullptr && charged) {
    Record& record = *asked.record;
    record.kept = true;
    record.replayed = false;
    record.decided = now_;
    record.expires = now_ + group.keep_id;
    buckets_[kRate].Lapse(record.expires.us);
    record.permit = holds ? asked.ask.id : Hash128{};
    record.asker = asked.ask.id;
    record.verdicts.clear();
    record.charges.clear();
    for (const core::Operation& operation : judged) {
      record.verdicts.push_back(operation.verdict);
      record.charges.push_back(operation.charge);
    }
  }
  if (tally_ != nullptr) {
    tally_->granted += holds ? 1 : 0;
    tally_->from_queue += holds && asked.kind == Kind::kAskAgain ? 1 : 0;
    tally_->queued += queued ? 1 : 0;
    tally_->denied += core::GroupOutcome(judged) == Outcome::kDenied ? 1 : 0;
  }
  Remember(asked, sent, queued);
}

// What later steps are about.
void PermitPlayer::Remember(Asked& asked, const ScriptCall::Sent& sent, bool queued) {
  if (asked.kind == Kind::kNamed || asked.kind == Kind::kRepeat) {
    if (std::ranges::find(records_, asked.record) == records_.end()) records_.push_front(asked.record);
    if (records_.size() > kRecords) records_.pop_back();
  }
  Permit permit{asked.ask.id, asked.session, asked.step, asked.holder, queued, asked.places, {},
                {},           asked.record};
  bool holds = false;
  for (const core::Operation* const operation : asked.operations) {
    permit.charges.push_back(operation->charge);
    holds = holds || operation->charge.cost > 0;
  }
  std::erase_if(permits_, [&](const Permit& known) { return known.id == permit.id; });
  if (!holds && !queued) return;
  call_.TakeBack(sent, permit.undo);
  permits_.push_front(std::move(permit));
  if (permits_.size() > kRemembered) permits_.pop_back();
}

void PermitPlayer::JudgeReplay(Asked& asked, Record& record) {
  const engine::GroupResult& result = asked.batch.groups()[0].result;
  record.replayed = true;
  if (tally_ != nullptr) ++tally_->replayed;
  if (result.state != GroupState::kDecided || !result.replayed || result.queued)
    return Fail("a repeat has state " + std::to_string(static_cast<int>(result.state)));
  if (result.permit_id != record.permit)
    return Fail("a repeat is told of permit " + std::to_string(result.permit_id.low));
  core::Operation first;
  for (size_t i = 0; i < record.verdicts.size(); ++i) {
    first.verdict = record.verdicts[i];
    first.charge = record.charges[i];
    if (first.charge.cost == 0) first.charge = {};
    Compare(asked, i, first);
  }
}

void PermitPlayer::JudgeAdjust(Asked& asked) {
  const engine::GroupResult& result = asked.batch.groups()[0].result;
  if (result.state != GroupState::kDecided || result.replayed || result.queued)
    return Fail("a report has state " + std::to_string(static_cast<int>(result.state)));
  JudgedBucket& bucket = buckets_[asked.places[0]];
  std::vector<core::Operation> judged = Found(asked);
  core::AdjustCharge(judged[0], asked.charge, asked.operations[0]->cost, now_, &asked.ask);
  bucket.Apply(*judged[0].limit, judged[0], asked.ask, asked.session, now_);
  bucket.Lapse(now_.us);
  // As a peek after it: core, which sees the holders as they were, knows no exact times.
  core::Operation peek;
  peek.limit = judged[0].limit;
  peek.bucket = bucket.View(asked.ask.id, asked.session, asked.word, now_);
  core::DecideGroup({&peek, 1}, {}, now_);
  peek.charge = judged[0].charge;
  Compare(asked, 0, peek);
  if (asked.kind != Kind::kReport || !bucket.Holds(asked.ask.id, now_)) return;
  permits_.push_front({.id = asked.ask.id,
                       .session = asked.session,
                       .step = asked.step,
                       .holder = asked.holder,
                       .waits = false,
                       .places = asked.places,
                       .charges = {judged[0].charge},
                       .undo = {},
                       .record = nullptr});
}

void PermitPlayer::JudgeList(Asked& asked) {
  JudgedBucket& bucket = buckets_[asked.places[0]];
  if (asked.batch.groups()[0].result.state != GroupState::kDecided) return Fail("no list");
  if (tally_ != nullptr) ++tally_->listed;
  engine::HolderList judged = bucket.List(asked.list.only, asked.list.sums_only, asked.session, now_);
  const auto order = [](engine::HolderList& list) {
    std::ranges::stable_sort(list.entries, [](const auto& a, const auto& b) {
      return a.expires_in != b.expires_in ? a.expires_in < b.expires_in : a.id < b.id;
    });
  };
  if (!std::ranges::is_sorted(asked.list.entries, {}, &engine::HolderList::Entry::expires_in))
    return Fail("a list out of order");
  order(asked.list);
  order(judged);
  const std::string told = Show(asked.list);
  if (told != Show(judged)) return Fail("\n  redis: " + told + "\n  judge: " + Show(judged));
  core::Operation peek;
  peek.limit = &bucket.limit();
  peek.bucket = bucket.View({}, asked.session, true, now_);
  peek.bucket.version = std::min(peek.bucket.version, peek.limit->version);
  core::DecideGroup({&peek, 1}, {}, now_);
  Compare(asked, 0, peek);
}

void PermitPlayer::JudgeReset(Asked& asked) {
  if (asked.batch.groups()[0].result.state != GroupState::kDecided) return Fail("no reset");
  for (size_t i = 0; i < asked.places.size(); ++i) {
    JudgedBucket& bucket = buckets_[asked.places[i]];
    bucket.View({}, asked.session, false, now_);
    bucket.Reset(now_);
    core::Operation empty;
    empty.limit = asked.operations[i]->limit;
    core::DecideGroup({&empty, 1}, {}, now_);
    Compare(asked, i, empty);
  }
}

}  // namespace penstock::fixtures
