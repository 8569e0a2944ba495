// Makes the calls. traffic_judge.cc judges the answers.
#include "redis/traffic_player.h"

#include <algorithm>
#include <utility>

#include "engine/redis/binding.h"
#include "engine/redis/exchange.h"
#include "engine/redis/keys.h"
#include "redis/fixture_error.h"
#include "redis/script_clock.h"
#include "redis/traffic_parts.h"

namespace penstock::fixtures {
namespace {

using core::testing::ToModel;
using engine::Mode;
using engine::redis::AppendIdKey;
using engine::redis::ScriptCall;
using Kind = TrafficStep::Kind;

constexpr int32_t kNoSlot = engine::redis::Exchange::kNoSlot;

std::unique_ptr<core::Limit> MakeLimit(const Traffic& traffic, size_t number, const core::RateSpec& spec,
                                       int generation) {
  const core::testing::ScenarioLimit& plan = traffic.limits[number];
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "d";
  limit->name = "t" + std::to_string(traffic.seed) + "." + std::to_string(number);
  limit->identity = limit->name + "/" + std::to_string(static_cast<int>(spec.algorithm)) + "/" +
                    std::to_string(static_cast<int>(spec.window));
  limit->key_names = {"key"};
  limit->params = *core::CompileRate(spec);
  limit->shadow = plan.shadow;
  limit->version = plan.ad_hoc ? 0 : traffic.first_version + generation;
  limit->binding = std::make_unique<engine::redis::RedisBinding>(*limit, kTrafficPrefix);
  return limit;
}

// Kinds that share a call with others. The rest spoil the store, or are chosen by what earlier answers were.
bool MayShareCall(Kind kind) {
  return kind == Kind::kCheck || kind == Kind::kNamed || kind == Kind::kRepeat || kind == Kind::kConflict ||
         kind == Kind::kSettle;
}

core::GroupOptions OptionsOf(const TrafficStep& step) {
  return {.max_wait = {step.step.max_wait_us},
          .force = step.step.force,
          .partial = step.step.partial,
          .dry = step.dry};
}

}  // namespace

TrafficPlayer::TrafficPlayer(const Traffic& traffic, const PlayOptions& options, RedisClient& others,
                             TrafficTally* tally)
    : traffic_(traffic),
      options_(options),
      others_(others),
      tally_(tally),
      start_us_(options.own_clock ? traffic.start_us : options.start_us),
      now_us_(start_us_),
      call_(options.scripts) {
  Random random(traffic.seed ^ 0x5ce4e);
  edges_ = core::testing::PickEdges(random, start_us_);
  for (size_t i = 0; i < traffic.limits.size(); ++i) {
    core::testing::ModelSpec spec = ToModel(traffic.limits[i].spec, edges_);
    spec.count += options.favour;
    limits_.push_back(std::make_unique<LimitState>(std::move(spec)));
    LimitState& limit = *limits_.back();
    limit.plan = traffic.limits[i];
    limit.versions.push_back(MakeLimit(traffic, i, limit.plan.spec, 0));
    constexpr std::string_view kValue[] = {"k"};
    engine::redis::BindingOf(limit.now()).keys.AppendWithoutSlot(limit.key, kValue);
  }
}

TrafficPlayer::~TrafficPlayer() = default;

void TrafficPlayer::MoveClock(const TrafficStep& step) {
  if (!options_.own_clock) return;
  const Micros period = limits_[static_cast<size_t>(step.limits[0])]->now().params.period;
  const int64_t moved = InstantOf(step.step, now_us_, retry_, reset_, period);
  const bool calendar = std::ranges::any_of(
      limits_, [](const auto& limit) { return core::IsCalendar(limit->plan.spec.window); });
  const int64_t low = std::max(earliest_us_, calendar ? edges_[2] : 0);
  const int64_t high = calendar ? edges_[edges_.size() - 4] : core::kMaxExact;
  now_us_ = std::clamp(moved, low, std::max(low, high));
}

void TrafficPlayer::Change(int number) {
  LimitState& limit = *limits_[static_cast<size_t>(number)];
  const std::vector<core::RateSpec>& later = limit.plan.later;
  const int generation = limit.generation() + 1;
  const core::RateSpec& spec = later[static_cast<size_t>(generation - 1) % later.size()];
  limit.versions.push_back(MakeLimit(traffic_, static_cast<size_t>(number), spec, generation));
}

bool TrafficPlayer::Ask(std::string& bytes) {
  if (!difference_.empty()) return false;
  call_.Clear();
  asked_.clear();
  for (const std::string& key : std::exchange(spoiled_, {})) others_.Must("DEL", key);
  if (again_.empty()) {
    GatherCall();
  } else {
    for (auto& group : std::exchange(again_, {})) {
      if (!AddToCall(*group)) throw FixtureError("groups of one call do not fit into another");
      asked_.push_back(std::move(group));
    }
  }
  if (asked_.empty()) return false;
  for (const auto& group : asked_) {
    if (group->spoiled && !group->again) Spoil(*group);
  }
  if (options_.own_clock) bytes += SetScriptClock({now_us_});
  const int64_t passed = options_.own_clock ? now_us_ - 1 : start_us_ - 1'000'000;
  call_.SetNotAfter({asked_[0]->late ? passed : core::kMaxExact});
  bytes += call_.command();
  if (tally_ != nullptr) {
    ++tally_->calls;
    tally_->together += asked_.size() > 1 ? 1 : 0;
  }
  return true;
}

void TrafficPlayer::GatherCall() {
  for (;;) {
    if (waiting_ == nullptr) {
      if (next_ == traffic_.steps.size()) return;
      const TrafficStep& step = traffic_.steps[next_];
      if (asked_.empty()) {
        MoveClock(step);
      } else if (!step.together || !MayShareCall(step.kind)) {
        return;
      }
      ++next_;
      if (!Prepare(step)) continue;
    }
    if (!AddToCall(*waiting_)) return;
    asked_.push_back(std::move(waiting_));
    if (!MayShareCall(asked_.back()->kind)) return;
  }
}

bool TrafficPlayer::AddToCall(Group& group) {
  if (group.kind == Kind::kUndo || group.kind == Kind::kUndoNamed) {
    return call_.AddUndo(group.charged.undo, 0) == ScriptCall::Added::kYes;
  }
  engine::redis::CallPart part;
  part.batch = &group.batch;
  part.group = &group.group();
  part.operations = group.operations;
  part.keys = group.keys;
  part.id_key = group.id_key;
  part.by_group = group.step->by_group || group.again;
  return call_.Add(part) == ScriptCall::Added::kYes;
}

// False: the step has nothing to refer to and is passed over; its change of a limit holds all the same.
bool TrafficPlayer::Prepare(const TrafficStep& step) {
  const size_t number = next_ - 1;
  const int change = step.step.change;
  if (change >= 0 && static_cast<size_t>(change) < step.limits.size()) {
    Change(step.limits[static_cast<size_t>(change)]);
  }
  auto group = std::make_unique<Group>();
  group->step = &step;
  group->number = number;
  group->kind = step.kind;
  group->limits = step.limits;
  group->edges = core::testing::BoundariesAt(edges_, now_us_);
  if (!ChooseTarget(*group)) return false;
  if (group->kind != Kind::kUndo && group->kind != Kind::kUndoNamed) Fill(*group);
  for (const int limit : group->limits) {
    group->generations.push_back(limits_[static_cast<size_t>(limit)]->generation());
  }
  if (tally_ != nullptr) ++tally_->kinds[static_cast<int>(group->kind)];
  waiting_ = std::move(group);
  return true;
}

// What the step refers to: an id, a charge, a limit that it can be done to.
bool TrafficPlayer::ChooseTarget(Group& group) {
  const TrafficStep& step = *group.step;
  switch (step.kind) {
    case Kind::kCheck:
    case Kind::kReset:
      return true;
    case Kind::kNamed:
    case Kind::kForeignId:
      NewId(group);
      return true;
    case Kind::kLate:
      group.late = true;
      return (step.variant % 2 == 0) || ChooseId(group);
    case Kind::kRepeat:
    case Kind::kConflict:
    case Kind::kSettle:
    case Kind::kUndoNamed:
      return ChooseId(group);
    case Kind::kAdjust:
    case Kind::kUndo:
      return ChooseCharge(group);
    case Kind::kStale:
      return ChooseOldVersion(group);
    case Kind::kWrongEdges:
      return ChooseWrongEdges(group);
    case Kind::kForeign:
    case Kind::kNewer:
      for (const int number : group.limits) {
        const LimitState& limit = *limits_[static_cast<size_t>(number)];
        if (limit.finite()) group.spoiled_key = limit.key;
      }
      group.spoiled = !group.spoiled_key.empty();
      return group.spoiled;
  }
  return false;
}

void TrafficPlayer::NewId(Group& group) {
  constexpr Micros kKeep[] = {Seconds(60), Seconds(3'600), Millis(100), Micros{1}};
  if (ids_.size() == kIdsRemembered) ids_.pop_front();
  ids_.push_back(std::make_shared<IdRecord>());
  IdRecord& record = *ids_.back();
  record.id = "t" + std::to_string(traffic_.seed) + "-" + std::to_string(group.number);
  record.fingerprint = traffic_.seed * 31 + group.number;
  record.asked = *group.step;
  record.keep = kKeep[static_cast<size_t>(group.step->variant) % 4];
  group.record = ids_.back();
  if (group.kind != Kind::kForeignId) return;
  group.spoiled = true;
  AppendIdKey(group.spoiled_key, kTrafficPrefix, kNoSlot, "d", record.id);
}

bool TrafficPlayer::ChooseId(Group& group) {
  const auto back = static_cast<size_t>(group.step->back);
  if (back >= ids_.size()) return false;
  group.record = ids_[ids_.size() - 1 - back];
  const IdRecord& record = *group.record;
  if (group.kind == Kind::kSettle || group.kind == Kind::kUndoNamed) {
    // What the model has no answer for: ad hoc parameters that changed since, or that a charge of nothing met.
    for (size_t i = 0; i < record.limits.size(); ++i) {
      const LimitState& limit = *limits_[static_cast<size_t>(record.limits[i])];
      if (limit.plan.ad_hoc && limit.generation() != record.charged.generations[i]) return false;
      if (limit.plan.ad_hoc && record.charged.model[i].cost == 0) return false;
    }
    const auto ad_hoc = [&](int limit) { return limits_[static_cast<size_t>(limit)]->plan.ad_hoc; };
    if (!record.kept && std::ranges::any_of(record.asked.limits, ad_hoc)) return false;
    if (record.kept && !record.usable) return false;
  }
  if (group.kind == Kind::kUndoNamed) {
    if (!record.kept || record.settled || record.charged.undo.empty()) return false;
    if (IsPending(record.charged) || IsOutsideEdges(record.charged)) return false;
    group.charged = record.charged;
    group.limits = record.limits;
    for (engine::redis::Undo& undo : group.charged.undo) undo.unless_replayed = group.step->variant % 2 != 0;
    return true;
  }
  group.limits = record.asked.limits;
  if (group.step->variant == 6 && group.limits.size() > 1) group.limits.pop_back();
  const int other = group.step->limits.back();
  if (group.step->variant == 7 && group.limits.size() < core::testing::kMaxScenarioLimits &&
      std::ranges::find(group.limits, other) == group.limits.end()) {
    group.limits.push_back(other);
  }
  // The model does not tell how ad hoc parameters that nobody was charged by look to a settle.
  const auto changed = [&](int limit) {
    const LimitState& state = *limits_[static_cast<size_t>(limit)];
    return state.plan.ad_hoc && state.generation() > 0;
  };
  return group.kind != Kind::kSettle || std::ranges::none_of(group.limits, changed);
}

// An undo brings the calendar edges of its charge, and does nothing where the clock is elsewhere by now.
bool TrafficPlayer::IsOutsideEdges(const Charged& charged) const {
  return std::ranges::any_of(charged.undo, [&](const engine::redis::Undo& undo) {
    const core::WindowBoundaries edges = undo.limit.edges();
    return edges.end_of_next.us != 0 && (now_us_ < edges.previous.us || now_us_ >= edges.end_of_next.us);
  });
}

// Whether a bucket of these charges is still under parameters that are not its limit's: an undo, which knows only the
// old ones, leaves it so, and the model cannot.
bool TrafficPlayer::IsPending(const Charged& charged) const {
  for (size_t i = 0; i < charged.limits.size(); ++i) {
    const LimitState& limit = *limits_[static_cast<size_t>(charged.limits[i])];
    if (limit.plan.ad_hoc && limit.generation() != charged.generations[i]) return true;
    if (limit.plan.ad_hoc && limit.generation() != limit.charged_generation) return true;
    if (!limit.plan.ad_hoc && limit.model.written() && limit.model.bucket_version() != limit.generation())
      return true;
  }
  return false;
}

bool TrafficPlayer::ChooseCharge(Group& group) {
  const auto back = static_cast<size_t>(group.step->back);
  if (back >= charges_.size()) return false;
  const auto chosen = charges_.end() - 1 - static_cast<std::ptrdiff_t>(back);
  group.charged = *chosen;
  if (group.kind == Kind::kUndo) {
    if (group.charged.undo.empty() || IsPending(group.charged) || IsOutsideEdges(group.charged)) return false;
    group.limits = group.charged.limits;
    charges_.erase(chosen);
    return true;
  }
  group.adjusted = static_cast<size_t>(group.step->variant) % group.charged.limits.size();
  const int number = group.charged.limits[group.adjusted];
  const LimitState& limit = *limits_[static_cast<size_t>(number)];
  if (!limit.finite()) return false;  // nothing is kept of it
  if (limit.plan.ad_hoc && limit.generation() != group.charged.generations[group.adjusted]) return false;
  if (limit.plan.ad_hoc && limit.generation() != limit.charged_generation) return false;
  group.delta =
      group.step->step.delta != 0 ? group.step->step.delta : -group.charged.core[group.adjusted].cost;
  group.limits = {number};
  charges_.erase(chosen);  // comes back as it then stands
  return true;
}

bool TrafficPlayer::ChooseOldVersion(Group& group) {
  LimitState& limit = *limits_[static_cast<size_t>(group.limits[0])];
  if (!options_.own_clock || limit.plan.ad_hoc || !limit.finite() || limit.generation() == 0) return false;
  // Only of a bucket that must be there: what is idle may be gone, and its version with it.
  return limit.model.written() && limit.model.bucket_version() == limit.generation() &&
         now_us_ < limit.idle_at_us;
}

bool TrafficPlayer::ChooseWrongEdges(Group& group) {
  constexpr Micros kFar = Seconds(400 * 86'400);
  const bool calendar = std::ranges::any_of(group.limits, [&](int limit) {
    const LimitState& state = *limits_[static_cast<size_t>(limit)];
    return state.finite() && core::IsCalendar(state.plan.spec.window);
  });
  core::WindowBoundaries& edges = group.edges;
  for (EngineTime* const edge : {&edges.previous, &edges.current, &edges.next, &edges.end_of_next}) {
    *edge = *edge + kFar;
  }
  return calendar;
}

// The engine's group.
void TrafficPlayer::Fill(Group& group) {
  const TrafficStep& step = *group.step;
  const bool repeats = group.record != nullptr && group.kind != Kind::kSettle;
  const TrafficStep& asked = repeats ? group.record->asked : step;
  engine::Group& out = group.batch.AddGroup();
  if (group.kind != Kind::kSettle && group.kind != Kind::kAdjust && group.kind != Kind::kReset) {
    out.options = OptionsOf(asked);
  }
  if (group.kind == Kind::kStale || group.record != nullptr) out.options.dry = false;
  if (group.kind == Kind::kSettle) out.mode = Mode::kSettle;
  if (group.kind == Kind::kAdjust) out.mode = Mode::kAdjust;
  if (group.kind == Kind::kReset) out.mode = Mode::kReset;
  if (group.record != nullptr) {
    out.request_id = group.batch.Copy(group.record->id);
    out.fingerprint = group.record->fingerprint + (group.kind == Kind::kConflict ? 1 : 0);
    out.keep_id = group.record->keep;
    AppendIdKey(group.id_key, kTrafficPrefix, kNoSlot, "d", group.record->id);
  }
  for (size_t i = 0; i < group.limits.size(); ++i) {
    LimitState& state = *limits_[static_cast<size_t>(group.limits[i])];
    const bool old = group.kind == Kind::kStale && i == 0;
    const core::Limit& limit = old ? *state.versions[state.versions.size() - 2] : state.now();
    constexpr std::string_view kValue[] = {"k"};
    core::Operation& operation = group.batch.AddOperation(limit, kValue);
    const auto place = std::ranges::find(asked.limits, group.limits[i]) - asked.limits.begin();
    operation.cost = static_cast<size_t>(place) < asked.limits.size() ? asked.step.cost[place] : 1;
    if (group.kind == Kind::kSettle) operation.cost = std::max<int64_t>(operation.cost, 0);
    if (group.kind == Kind::kAdjust) {
      operation.cost = group.delta;
      operation.charge = group.charged.core[group.adjusted];
    }
    operation.unit = state.plan.unit;
    operation.boundaries = &group.edges;
    group.keys.push_back(state.key);
  }
  for (core::Operation& operation : group.batch.operations()) group.operations.push_back(&operation);
}

void TrafficPlayer::Spoil(const Group& group) {
  const std::string& key = group.spoiled_key;
  others_.Must("DEL", key);
  if (group.kind == Kind::kNewer) {
    const auto size = static_cast<size_t>(1 + 16 * group.step->variant);
    others_.Must("SET", key, std::string(1, '\x02') + std::string(size, '\x01'));
    return;
  }
  const std::string texts[] = {"", "x", std::string(1, '\x01'), "{\"json\": true}", std::string(42, '\x01')};
  switch (group.step->variant) {
    case kFirstNoString:
      others_.Must("RPUSH", key, "a", "b");
      break;
    case 6:
      others_.Must("HSET", key, "a", "b");
      break;
    case 7:
      others_.Must("ZADD", key, "1", "b");
      break;
    default:
      others_.Must("SET", key, texts[group.step->variant]);
  }
}

void LoadScripts(RedisClient& client, std::span<const engine::redis::Script> scripts) {
  for (const engine::redis::Script& script : scripts) {
    const ReplyValue reply = client.Must("SCRIPT", "LOAD", script.text);
    if (reply.text != script.sha1) throw FixtureError("another hash of a script: " + reply.text);
  }
}

std::optional<Difference> PlayAll(std::span<const Traffic> traffic, const PlayOptions& options,
                                  RedisClient& node, RedisClient& others, TrafficTally* tally) {
  others.Must("FLUSHALL");
  std::vector<std::unique_ptr<TrafficPlayer>> players;
  for (const Traffic& one : traffic)
    players.push_back(std::make_unique<TrafficPlayer>(one, options, others, tally));
  for (bool more = true; more;) {
    more = false;
    std::string bytes;
    std::vector<TrafficPlayer*> asking;
    for (const auto& player : players) {
      if (player->Ask(bytes)) asking.push_back(player.get());
    }
    node.Send(bytes);
    for (TrafficPlayer* const player : asking) player->Hear(node);
    for (size_t i = 0; i < players.size(); ++i) {
      if (!players[i]->difference().empty()) return Difference{i, players[i]->difference()};
    }
    more = !asking.empty();
  }
  return std::nullopt;
}

}  // namespace penstock::fixtures
