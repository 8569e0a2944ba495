// Judges the answers to what traffic_player.cc asked.
#include <algorithm>
#include <utility>

#include "core/testing/scenario.h"
#include "redis/fixture_error.h"
#include "redis/traffic_parts.h"

namespace penstock::fixtures {
namespace {

using core::testing::FromModel;
using core::testing::Model;
using core::testing::ModelCharge;
using core::testing::ModelOptions;
using core::testing::ModelOutcome;
using core::testing::ModelRequest;
using core::testing::ModelVerdict;
using core::testing::Show;
using core::testing::ToModel;
using engine::GroupState;
using engine::redis::ScriptCall;
using Answer = ScriptCall::Answer;
using Kind = TrafficStep::Kind;

std::string ShowState(GroupState state) { return "state " + std::to_string(static_cast<int>(state)); }
std::string ShowAnswer(Answer answer) { return "answer " + std::to_string(static_cast<int>(answer)); }

ModelOptions ToModelOptions(const core::GroupOptions& options) {
  return {.max_wait_us = options.max_wait.count,
          .force = options.force,
          .partial = options.partial,
          .dry = options.dry};
}

// From when on the bucket may be gone: what is idle already may be gone for long.
int64_t IdleAt(EngineTime now, const ModelVerdict& verdict) {
  return verdict.reset_after_us > 0 ? now.us + verdict.reset_after_us : 0;
}

// The others change what was decided before.
bool IsDecision(Kind kind) {
  return kind != Kind::kSettle && kind != Kind::kUndoNamed && kind != Kind::kAdjust && kind != Kind::kUndo &&
         kind != Kind::kReset;
}

}  // namespace

void TrafficPlayer::Hear(RedisClient& client) {
  if (options_.own_clock) {
    const ReplyValue set = client.Receive();
    if (set.is_error()) throw FixtureError("answered: " + set.text);
  }
  const std::span<const resp::ReplyNode> nodes = client.ReceiveNodes();
  std::vector<engine::redis::Undo> unused;
  if (!call_.Read(nodes, unused)) {
    difference_ = "no answer: " + std::string(nodes[0].text);
    return;
  }
  const std::span<ScriptCall::Sent> sent = call_.sent();
  for (size_t i = 0; i < asked_.size() && difference_.empty(); ++i) {
    Group& group = *asked_[i];
    std::string wrong;
    if (options_.own_clock && call_.now().us != now_us_) wrong = "another clock than was set";
    if (wrong.empty() && sent[i].answer == Answer::kAskGroup && !group.again && !group.step->by_group) {
      group.again = true;
      again_.push_back(std::move(asked_[i]));
      if (tally_ != nullptr) ++tally_->asked_again;
      continue;
    }
    if (wrong.empty()) {
      ChangeModels(group);
      NoteIdle(group);
      wrong = Judge(group, sent[i]);
    }
    if (tally_ != nullptr) ++tally_->steps;
    if (wrong.empty()) {
      if (group.spoiled) spoiled_.push_back(group.spoiled_key);
      continue;
    }
    difference_ = "step " + std::to_string(group.number) + " (" + NameOf(group.kind) + ") at " +
                  std::to_string(call_.now().us) + ": " + wrong;
  }
}

// A bucket that is idle may be there or gone. That is the same to who decides. Who changes it without a charge leaves
// something only where it was there, and that is the same as long as the clock does not go back.
void TrafficPlayer::NoteIdle(const Group& group) {
  for (const int number : group.limits) {
    const LimitState& limit = *limits_[static_cast<size_t>(number)];
    const bool moves = !limit.plan.ad_hoc && limit.model.bucket_version() != limit.judged_generation;
    const bool idle = limit.model.written() && limit.idle_at_us <= call_.now().us;
    if (idle && (moves || !IsDecision(group.kind))) earliest_us_ = std::max(earliest_us_, call_.now().us);
  }
}

// Brings the models to the parameters that the group was asked by. Those of an ad hoc limit may be earlier ones again:
// a plain request that is asked a second time is decided after its followers.
void TrafficPlayer::ChangeModels(const Group& group) {
  for (size_t i = 0; i < group.limits.size(); ++i) {
    LimitState& limit = *limits_[static_cast<size_t>(group.limits[i])];
    const std::vector<core::RateSpec>& later = limit.plan.later;
    while (limit.judged_generation != group.generations[i]) {
      limit.judged_generation = limit.plan.ad_hoc ? group.generations[i] : limit.judged_generation + 1;
      const int generation = limit.judged_generation;
      core::testing::ModelSpec spec = ToModel(
          generation == 0 ? limit.plan.spec : later[static_cast<size_t>(generation - 1) % later.size()],
          edges_);
      spec.count += options_.favour;
      if (tally_ != nullptr) ++tally_->changed;
      limit.plan.ad_hoc ? limit.model.ChangeAdHoc(std::move(spec)) : limit.model.Change(std::move(spec));
    }
  }
}

// Empty again, under the parameters that the model has.
void TrafficPlayer::Forget(int number) {
  LimitState& limit = *limits_[static_cast<size_t>(number)];
  Model fresh(limit.model.spec());
  // So that its version goes on.
  for (int i = 0; i < limit.judged_generation && !limit.plan.ad_hoc; ++i) fresh.Change(limit.model.spec());
  limit.model = std::move(fresh);
  const auto has = [number](const Charged& charged) {
    return std::ranges::find(charged.limits, number) != charged.limits.end();
  };
  std::erase_if(charges_, has);
  for (const auto& record : ids_) record->usable = record->usable && !has(record->charged);
}

std::string TrafficPlayer::Judge(Group& group, const ScriptCall::Sent& sent) {
  const EngineTime now = call_.now();
  const auto expect = [&](Answer answer) {
    return sent.answer == answer ? "" : ShowAnswer(sent.answer) + ", not " + ShowAnswer(answer);
  };
  if (group.kind == Kind::kForeign || group.kind == Kind::kNewer) {
    for (const int limit : group.limits) {
      if (limits_[static_cast<size_t>(limit)]->key == group.spoiled_key) Forget(limit);
    }
    // What is no string is seen by a write only; until then the bucket looks empty.
    const bool unseen = group.step->variant >= kFirstNoString && !group.again && !sent.charged;
    if (group.kind == Kind::kForeign && unseen && sent.answer == Answer::kDecided) return "";
    return expect(group.kind == Kind::kForeign ? Answer::kForeign : Answer::kNewer);
  }
  if (group.kind == Kind::kForeignId && group.step->variant < kFirstNoString) return expect(Answer::kForeign);
  if (group.kind == Kind::kUndo || group.kind == Kind::kUndoNamed) {
    const std::string wrong = expect(Answer::kDecided);
    return wrong.empty() ? JudgeUndo(group, now) : wrong;
  }
  if (group.late && Record(group, now) == nullptr) return expect(Answer::kLate);
  if (sent.answer != Answer::kDecided) return expect(Answer::kDecided);
  if (group.group().result.now != now) return "another clock than the call's";
  switch (group.kind) {
    case Kind::kStale:
      return Expect(group, GroupState::kStale);
    case Kind::kWrongEdges:
      return Expect(group, GroupState::kStaleClock);
    case Kind::kSettle:
      return JudgeSettle(group, now);
    case Kind::kAdjust:
      return JudgeAdjust(group, now);
    case Kind::kReset:
      return JudgeReset(group, now);
    case Kind::kForeignId: {  // nothing could be kept
      const std::string wrong = JudgeCheck(group, sent, now);
      return wrong.empty() && group.group().result.replayable == sent.charged ? "replayable, or not" : wrong;
    }
    default:
      return group.record == nullptr ? JudgeCheck(group, sent, now) : JudgeNamed(group, sent, now);
  }
}

std::string TrafficPlayer::Expect(Group& group, GroupState state) const {
  const engine::GroupResult& result = group.group().result;
  if (result.state != state) return ShowState(result.state) + ", not " + ShowState(state);
  return result.replayed ? "replayed" : "";
}

// The id's record, if the store must still have it.
TrafficPlayer::IdRecord* TrafficPlayer::Record(const Group& group, EngineTime now) {
  return group.record != nullptr && group.record->kept && now.us < group.record->expires_us
             ? group.record.get()
             : nullptr;
}

std::string TrafficPlayer::Compare(const Group& group, size_t i, const ModelVerdict& expected,
                                   EngineTime now) {
  const core::Operation& operation = group.operation(i);
  const std::string told = Show(operation.verdict);
  const std::string judged = Show(FromModel(expected));
  LimitState& limit = *limits_[static_cast<size_t>(group.limits[i])];
  limit.idle_at_us = IdleAt(now, expected);
  if (i == 0) {
    retry_ = operation.verdict.retry_after;
    reset_ = operation.verdict.reset_after;
  }
  if (tally_ != nullptr) {
    tally_->allowed += expected.outcome == ModelOutcome::kAllowed ? 1 : 0;
    tally_->denied += expected.outcome == ModelOutcome::kDenied ? 1 : 0;
    tally_->never += expected.outcome == ModelOutcome::kNever ? 1 : 0;
    tally_->waited += expected.wait_us > 0 ? 1 : 0;
    tally_->saturated += expected.saturated ? 1 : 0;
  }
  if (told == judged) return "";
  return "limit " + std::to_string(group.limits[i]) + "\n  redis: " + told + "\n  judge: " + judged;
}

std::string TrafficPlayer::CompareCharge(const Group& group, size_t i, const ModelCharge& expected) const {
  const core::Charge& charge = group.operation(i).charge;
  const std::string at = "limit " + std::to_string(group.limits[i]);
  if (charge.cost != expected.cost) {
    return at + ": a charge of " + std::to_string(charge.cost) + ", not " + std::to_string(expected.cost);
  }
  const core::Algorithm algorithm = limits_[static_cast<size_t>(group.limits[i])]->plan.spec.algorithm;
  const bool windows =
      algorithm == core::Algorithm::kFixedWindow || algorithm == core::Algorithm::kSlidingWindow;
  if (charge.cost == 0) return "";
  if (charge.at.us != expected.at_us || (windows && charge.window.us != expected.window_us)) {
    return at + ": the charge stands elsewhere";
  }
  return "";
}

// Lets the model decide; `charged` is what it charged.
std::string TrafficPlayer::Decide(Group& group, EngineTime now, std::vector<ModelVerdict>& answers,
                                  Charged& charged) {
  std::string wrong = Expect(group, GroupState::kDecided);
  std::vector<ModelRequest> requests;
  for (size_t i = 0; i < group.limits.size(); ++i) {
    const core::Operation& operation = group.operation(i);
    LimitState& limit = *limits_[static_cast<size_t>(group.limits[i])];
    requests.push_back({&limit.model, operation.cost, operation.unit, limit.plan.shadow});
  }
  answers = DecideTogether(requests, ToModelOptions(group.group().options), now.us);
  for (size_t i = 0; i < group.limits.size(); ++i) {
    const ModelCharge& expected = requests[i].model->charge();
    if (wrong.empty() && group.operation(i).skipped) wrong = "skipped";
    if (wrong.empty()) wrong = Compare(group, i, answers[i], now);
    if (wrong.empty()) wrong = CompareCharge(group, i, expected);
    if (expected.cost != 0)
      limits_[static_cast<size_t>(group.limits[i])]->charged_generation = group.generations[i];
    charged.core.push_back(group.operation(i).charge);
    charged.model.push_back(expected);
  }
  charged.limits = group.limits;
  charged.generations = group.generations;
  return wrong;
}

std::string TrafficPlayer::JudgeCheck(Group& group, const ScriptCall::Sent& sent, EngineTime now) {
  std::vector<ModelVerdict> answers;
  Charged charged;
  const std::string wrong = Decide(group, now, answers, charged);
  call_.TakeBack(sent, charged.undo);
  const auto spent = [](const ModelCharge& charge) { return charge.cost != 0; };
  if (std::ranges::any_of(charged.model, spent)) {
    if (charges_.size() == kChargesRemembered) charges_.pop_front();
    charges_.push_back(std::move(charged));
  }
  return wrong;
}

std::string TrafficPlayer::JudgeNamed(Group& group, const ScriptCall::Sent& sent, EngineTime now) {
  const uint64_t fingerprint = group.group().fingerprint;
  if (IdRecord* const kept = Record(group, now); kept != nullptr) {
    if (kept->fingerprint_kept != fingerprint) return Expect(group, GroupState::kConflict);
    kept->replayed = true;
    return JudgeRepeat(group);
  }
  std::vector<ModelVerdict> answers;
  Charged charged;
  const std::string wrong = Decide(group, now, answers, charged);
  const auto spent = [](const ModelCharge& charge) { return charge.cost != 0; };
  // What charged nothing is not kept; an earlier record, too old by now, stays, and counts again if the clock goes back.
  if (std::ranges::none_of(charged.model, spent)) return wrong;
  IdRecord& record = *group.record;
  record.kept = record.usable = true;
  record.replayed = record.settled = false;
  record.fingerprint_kept = fingerprint;
  record.expires_us = now.us + record.keep.count;
  record.limits = group.limits;
  record.answers = std::move(answers);
  call_.TakeBack(sent, charged.undo);
  for (size_t i = 0; i < charged.model.size(); ++i) {
    const Model& model = limits_[static_cast<size_t>(group.limits[i])]->model;
    if (charged.model[i].cost == 0) charged.model[i] = model.Place(now.us);
  }
  record.charged = std::move(charged);
  return wrong.empty() && !group.group().result.replayable ? "not replayable" : wrong;
}

std::string TrafficPlayer::JudgeRepeat(Group& group) {
  const IdRecord& record = *group.record;
  const engine::GroupResult& result = group.group().result;
  if (result.state != GroupState::kDecided) return "a repeat has " + ShowState(result.state);
  if (!result.replayed) return "a repeat was not replayed";
  for (size_t i = 0; i < group.limits.size(); ++i) {
    const auto place = std::ranges::find(record.limits, group.limits[i]) - record.limits.begin();
    const bool part = static_cast<size_t>(place) < record.limits.size();
    const core::Operation& operation = group.operation(i);
    if (operation.skipped == part)
      return part ? "a repeat passed a limit over" : "a repeat has a limit too many";
    if (!part) continue;
    const std::string told = Show(operation.verdict);
    const std::string first = Show(FromModel(record.answers[static_cast<size_t>(place)]));
    if (told != first) return "a repeat is told\n  redis: " + told + "\n  first: " + first;
  }
  return "";
}

std::string TrafficPlayer::JudgeSettle(Group& group, EngineTime now) {
  IdRecord* const record = Record(group, now);
  const auto place_of = [&](int limit) {
    return static_cast<size_t>(std::ranges::find(record->limits, limit) - record->limits.begin());
  };
  const auto took_part = [&](int limit) { return place_of(limit) < record->limits.size(); };
  if (record == nullptr || std::ranges::none_of(group.limits, took_part))
    return Expect(group, GroupState::kUnknownId);
  std::string wrong = Expect(group, GroupState::kDecided);
  record->settled = true;
  for (size_t i = 0; i < group.limits.size(); ++i) {
    const size_t place = place_of(group.limits[i]);
    const bool part = place < record->limits.size();
    const bool took = part && record->answers[place].outcome == ModelOutcome::kAllowed;
    const ModelCharge charge = took ? record->charged.model[place] : ModelCharge{};
    Model& model = limits_[static_cast<size_t>(group.limits[i])]->model;
    const int64_t delta = took ? group.operation(i).cost - charge.cost : 0;
    const ModelVerdict expected = model.Adjust(charge, delta, now.us);
    if (wrong.empty() && group.operation(i).skipped == part) wrong = "a settle passes over, or does not";
    if (wrong.empty()) wrong = Compare(group, i, expected, now);
    if (!took || !limits_[static_cast<size_t>(group.limits[i])]->finite()) continue;
    record->charged.model[place] = model.charge();
    if (wrong.empty()) wrong = CompareCharge(group, i, model.charge());
  }
  return wrong;
}

std::string TrafficPlayer::JudgeAdjust(Group& group, EngineTime now) {
  std::string wrong = Expect(group, GroupState::kDecided);
  Model& model = limits_[static_cast<size_t>(group.limits[0])]->model;
  ModelCharge& charge = group.charged.model[group.adjusted];
  const ModelVerdict expected = model.Adjust(charge, group.delta, now.us);
  if (wrong.empty()) wrong = Compare(group, 0, expected, now);
  if (wrong.empty()) wrong = CompareCharge(group, 0, model.charge());
  charge = model.charge();
  group.charged.core[group.adjusted] = group.operation(0).charge;
  group.charged.undo.clear();
  if (charge.cost != 0) charges_.push_back(std::move(group.charged));
  if (charges_.size() > kChargesRemembered) charges_.pop_front();
  return wrong;
}

// Nothing is told of it: what it left is seen by the next look at the buckets.
std::string TrafficPlayer::JudgeUndo(Group& group, EngineTime now) {
  if (group.kind == Kind::kUndoNamed) {
    IdRecord* const record = Record(group, now);
    if (record == nullptr || (record->replayed && group.charged.undo[0].unless_replayed)) return "";
    record->kept = false;
  }
  for (size_t i = 0; i < group.charged.limits.size(); ++i) {
    const ModelCharge& charge = group.charged.model[i];
    if (charge.cost <= 0) continue;
    LimitState& limit = *limits_[static_cast<size_t>(group.charged.limits[i])];
    limit.idle_at_us = IdleAt(now, limit.model.Adjust(charge, -charge.cost, now.us));
  }
  return "";
}

std::string TrafficPlayer::JudgeReset(Group& group, EngineTime now) {
  std::string wrong = Expect(group, GroupState::kDecided);
  for (size_t i = 0; i < group.limits.size(); ++i) {
    Forget(group.limits[i]);
    const ModelVerdict expected = limits_[static_cast<size_t>(group.limits[i])]->model.Decide(now.us, 0);
    if (wrong.empty()) wrong = Compare(group, i, expected, now);
  }
  return wrong;
}

}  // namespace penstock::fixtures
