#include "redis/permit_player.h"

#include <algorithm>
#include <utility>

#include "engine/redis/binding.h"
#include "engine/redis/exchange.h"
#include "engine/redis/keys.h"
#include "redis/fixture_error.h"
#include "redis/script_clock.h"

namespace penstock::fixtures {
namespace {

using engine::Mode;
using engine::redis::ScriptCall;
using Clock = PermitStep::Clock;
using Kind = PermitStep::Kind;

constexpr std::string_view kPrefix = "pen:";
constexpr std::string_view kReadable = "d/l:0:k";

std::shared_ptr<core::Limit> MakeLimit(const core::RateSpec& spec, bool shadow, core::Version version) {
  auto limit = std::make_shared<core::Limit>();
  limit->domain = "d";
  limit->name = "l";
  limit->params = *core::CompileRate(spec);
  limit->shadow = shadow;
  limit->version = version;
  limit->binding = std::make_unique<engine::redis::RedisBinding>(*limit, kPrefix);
  return limit;
}

// Decided as one of many, rather than alone in its own call.
bool GoesTogether(Kind kind) { return kind == Kind::kAcquire || kind == Kind::kNamed || kind == Kind::kList; }

bool IsGroup(Kind kind) {
  return kind != Kind::kCall && kind != Kind::kLook && kind != Kind::kUndo && kind != Kind::kChange;
}

}  // namespace

PermitPlayer::PermitPlayer(const PermitTraffic& traffic, const PermitStage& stage, PermitTally* tally)
    : traffic_(traffic), stage_(stage), tally_(tally), call_(stage.scripts) {
  stage_.others.Must("FLUSHALL");
  if (!stage_.own_clock) {
    const ReplyValue time = stage_.others.Must("TIME");
    now_.us = std::stoll(time[0].text) * 1'000'000 + std::stoll(time[1].text);
  }
  for (size_t i = 0; i < kLimits; ++i) {
    buckets_[i].permits = i != kRate;
    buckets_[i].versions.push_back(MakeLimit(traffic.limits[i], traffic.shadow[i], 1));
    if (i == kRate) {
      constexpr std::string_view kValue[] = {"k"};
      buckets_[i].versions[0]->key_names = {"key"};
      engine::redis::BucketKeys(kPrefix, buckets_[i].limit()).AppendWithoutSlot(keys_[i], kValue);
    } else {
      engine::redis::AppendPermitKey(keys_[i], kPrefix, {7, i + 1});
    }
  }
}

std::string PermitPlayer::Play() {
  for (size_t i = 0; i < traffic_.steps.size() && difference_.empty();) {
    const PermitStep& step = traffic_.steps[i];
    step_ = &step;
    MoveClock(step);
    if (tally_ != nullptr) {
      ++tally_->steps;
      ++tally_->kinds[static_cast<size_t>(step.kind)];
    }
    if (IsGroup(step.kind)) {
      i += Gather(i);
      continue;
    }
    ++i;
    if (step.kind == Kind::kChange) Change(step);
    if (step.kind == Kind::kUndo) Undo(step);
    if (step.kind == Kind::kCall || step.kind == Kind::kLook) Call(step);
  }
  return difference_;
}

void PermitPlayer::MoveClock(const PermitStep& step) {
  if (!stage_.own_clock) return;
  int64_t next = INT64_MAX;
  int64_t passed = 0;
  for (const JudgedBucket& bucket : buckets_) {
    const auto after = bucket.lapses().upper_bound(now_.us);
    if (after != bucket.lapses().end()) next = std::min(next, *after);
    if (after != bucket.lapses().begin()) passed = std::max(passed, *std::prev(after));
  }
  switch (step.clock) {
    case Clock::kStands:
      return;
    case Clock::kForward:
      now_.us += step.amount;
      return;
    case Clock::kToLapse:
    case Clock::kBeforeLapse:
      if (next != INT64_MAX) now_.us = std::max(now_.us, step.clock == Clock::kToLapse ? next : next - 1);
      return;
    case Clock::kBack:
      now_.us = std::min(now_.us, std::max(now_.us - step.amount, passed));
      return;
  }
}

void PermitPlayer::Change(const PermitStep& step) {
  const size_t place = static_cast<size_t>(step.limits) % kRate;
  JudgedBucket& bucket = buckets_[place];
  core::RateSpec spec = traffic_.limits[place];
  spec.count = 1 + step.variant % 7;
  if (step.variant % 2 == 0) spec.period = {100'000 + step.amount};
  bucket.versions.push_back(MakeLimit(spec, traffic_.shadow[place], bucket.limit().version + 1));
}

// Asks this step and those after it that go into the same call. How many steps that were.
size_t PermitPlayer::Gather(size_t from) {
  call_.Clear();
  asked_.clear();
  size_t taken = 0;
  for (size_t i = from; i < traffic_.steps.size(); ++i) {
    const PermitStep& step = traffic_.steps[i];
    const bool more = taken > 0;
    if (more && (!step.together || !GoesTogether(step.kind) || asked_.empty() ||
                 step.session != traffic_.steps[from].session)) {
      break;
    }
    std::unique_ptr<Asked> asked = Prepare(step);
    if (asked != nullptr) {
      if (!Add(*asked, step.by_group)) break;
      asked_.push_back(std::move(asked));
    }
    ++taken;
    if (more && tally_ != nullptr) {
      ++tally_->steps;
      ++tally_->shared;
      ++tally_->kinds[static_cast<size_t>(step.kind)];
    }
    if (!GoesTogether(step.kind)) break;
  }
  if (asked_.empty()) return taken;
  Send();
  // What a plain script does not decide goes to the script that decides everything.
  std::vector<std::unique_ptr<Asked>> again;
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (call_.sent()[i].answer == ScriptCall::Answer::kAskGroup) again.push_back(std::move(asked_[i]));
  }
  for (size_t i = 0; i < asked_.size() && difference_.empty(); ++i) {
    if (asked_[i] != nullptr) JudgeAnswer(*asked_[i], call_.sent()[i]);
  }
  if (again.empty() || !difference_.empty()) return taken;
  asked_ = std::move(again);
  call_.Clear();
  for (const auto& asked : asked_) {
    asked->again = true;
    if (!Add(*asked, true)) throw FixtureError("groups of one call do not fit into another");
  }
  Send();
  for (size_t i = 0; i < asked_.size() && difference_.empty(); ++i) JudgeAnswer(*asked_[i], call_.sent()[i]);
  return taken;
}

void PermitPlayer::Send() {
  std::string bytes = stage_.own_clock ? SetScriptClock(now_) : "";
  call_.SetNotAfter({core::kMaxExact});
  bytes += call_.command();
  stage_.node.Send(bytes);
  if (stage_.own_clock) stage_.node.Receive();
  std::vector<engine::redis::Undo> unused;
  const std::span<const resp::ReplyNode> nodes = stage_.node.ReceiveNodes();
  if (!call_.Read(nodes, unused)) return Fail("no answer: " + std::string(nodes[0].text));
  if (stage_.own_clock && call_.now() != now_) Fail("another clock than was set");
  now_ = call_.now();
}

std::unique_ptr<PermitPlayer::Asked> PermitPlayer::Prepare(const PermitStep& step) {
  auto asked = std::make_unique<Asked>();
  asked->step = &step;
  asked->kind = step.kind;
  asked->session = 100 + static_cast<uint64_t>(step.session);
  constexpr std::array<std::array<int, 3>, 8> kSets = {
      {{0, -1, -1}, {1, -1, -1}, {0, 1, -1}, {1, 0, -1}, {0, 2, -1}, {2, 1, -1}, {2, 0, 1}, {1, 2, 0}}};
  for (const int place : kSets[static_cast<size_t>(step.limits) % kSets.size()]) {
    if (place >= 0) asked->places.push_back(static_cast<size_t>(place));
  }
  if (step.named_holder) asked->holder = step.variant % 2 == 0 ? "one" : "two";
  asked->ask = {.id = {1, ++drawn_}, .lease = {step.lease}, .queue_for = {step.queue_for}};
  switch (step.kind) {
    case Kind::kNamed:
      asked->record = std::make_shared<Record>();
      asked->record->id = "id" + std::to_string(drawn_);
      asked->record->step = &step;
      asked->record->places = asked->places;
      break;
    case Kind::kRepeat:
      if (!ChooseRecord(*asked)) return nullptr;
      break;
    case Kind::kAskAgain:
      if (!ChooseAskAgain(*asked)) return nullptr;
      break;
    case Kind::kList:
      asked->places = {static_cast<size_t>(step.limits) % kRate};
      asked->ask = {};
      asked->list.only = step.variant % 3 == 0 ? "one" : "";
      asked->list.sums_only = step.variant % 4 == 0;
      break;
    case Kind::kReport:
      if (!ChooseReport(*asked)) return nullptr;
      break;
    case Kind::kAdjust:
      if (!ChooseAdjust(*asked)) return nullptr;
      break;
    case Kind::kStale: {
      const JudgedBucket& bucket = buckets_[asked->places[0]];
      if (asked->places[0] == kRate || bucket.limit().version == 1 || !bucket.Lives(now_)) return nullptr;
      break;
    }
    default:
      break;
  }
  Fill(*asked);
  return asked;
}

bool PermitPlayer::ChooseAskAgain(Asked& asked) {
  std::vector<const Permit*> waiting;
  for (const Permit& permit : permits_) {
    if (permit.waits) waiting.push_back(&permit);
  }
  if (waiting.empty()) return false;
  // Often the first of them, who may be granted.
  const size_t place =
      static_cast<size_t>(asked.step->variant % 2 == 0 ? 0 : asked.step->back) % waiting.size();
  const Permit& permit = *waiting[place];
  asked.step = permit.step;
  asked.places = permit.places;
  asked.holder = permit.holder;
  asked.session = permit.session;
  asked.record = permit.record;
  asked.ask = {.id = permit.id, .lease = {permit.step->lease}, .queue_for = {permit.step->queue_for}};
  return true;
}

bool PermitPlayer::ChooseRecord(Asked& asked) {
  if (records_.empty()) return false;
  asked.record = records_[static_cast<size_t>(asked.step->back) % records_.size()];
  asked.step = asked.record->step;
  asked.places = asked.record->places;
  return true;
}

// A permit that what stood in for the engine has granted; sometimes told twice.
bool PermitPlayer::ChooseReport(Asked& asked) {
  asked.places = {static_cast<size_t>(asked.step->limits) % kRate};
  return true;
}

bool PermitPlayer::ChooseAdjust(Asked& asked) {
  if (permits_.empty()) return false;
  const Permit& permit = permits_[static_cast<size_t>(asked.step->back) % permits_.size()];
  if (permit.charges.empty()) return false;
  const size_t i = static_cast<size_t>(asked.step->variant) % permit.places.size();
  if (permit.places[i] == kRate || permit.charges[i].cost == 0) return false;
  asked.places = {permit.places[i]};
  asked.ask = {.id = permit.id};
  return true;
}

// The engine's group.
void PermitPlayer::Fill(Asked& asked) {
  const PermitStep& step = *asked.step;
  engine::Group& out = asked.batch.AddGroup();
  const bool check = asked.kind != Kind::kList && asked.kind != Kind::kReset && asked.kind != Kind::kReport &&
                     asked.kind != Kind::kAdjust;
  asked.ask.holder = asked.holder;
  bool peeks = true;
  for (const size_t place : asked.places) peeks = peeks && (step.force || step.cost[place] == 0);
  asked.word = !(check && peeks && step.variant % 2 == 0 && asked.kind == Kind::kAcquire && !step.together);
  if (asked.word && asked.kind != Kind::kReset && asked.kind != Kind::kList) out.options.permit = &asked.ask;
  if (check) {
    out.options.force = step.force;
    out.options.partial = step.partial;
    out.options.dry = step.dry && asked.kind != Kind::kStale && asked.record == nullptr;
  }
  if (asked.kind == Kind::kList) {
    out.mode = Mode::kHolders;
    out.listing = &asked.list;
  }
  if (asked.kind == Kind::kReset) {
    out.mode = Mode::kReset;
    asked.word = false;
  }
  if (asked.kind == Kind::kReport || asked.kind == Kind::kAdjust) out.mode = Mode::kAdjust;
  if (asked.record != nullptr) {
    out.request_id = asked.record->id;
    out.fingerprint = 5;
    out.keep_id = {1'000'000 + step.variant * 100'000};
    engine::redis::AppendIdKey(asked.id_key, kPrefix, engine::redis::Exchange::kNoSlot, "d",
                               asked.record->id);
  }
  for (const size_t place : asked.places) {
    const JudgedBucket& bucket = buckets_[place];
    const bool old = asked.kind == Kind::kStale && place == asked.places[0];
    const core::Limit& limit = old ? *bucket.versions[bucket.versions.size() - 2] : bucket.limit();
    constexpr std::string_view kValue[] = {"k"};
    core::Operation& operation = asked.batch.AddOperation(limit, kValue);
    operation.cost = check && !(step.force && place != kRate) ? step.cost[place] : 0;
    operation.unit = static_cast<uint8_t>(step.variant % 2);
    if (asked.kind == Kind::kReport) {
      operation.cost = 1 + step.cost[place];
      operation.charge = {.at = now_,
                          .window = {now_.us - 1'000 + step.variant},
                          .debt_before = now_.us + 1'000 * step.variant - 50'000,
                          .cost = 0,
                          .version = limit.version};
    }
    if (asked.kind == Kind::kAdjust) {
      for (const Permit& permit : permits_) {
        for (size_t i = 0; i < permit.charges.size(); ++i) {
          if (permit.id == asked.ask.id && permit.places[i] == place) operation.charge = permit.charges[i];
        }
      }
      operation.cost = -operation.charge.cost;
    }
    asked.charge = operation.charge;
    asked.keys.push_back(keys_[place]);
    asked.readable.push_back(kReadable);
  }
  for (core::Operation& operation : asked.batch.operations()) asked.operations.push_back(&operation);
}

bool PermitPlayer::Add(Asked& asked, bool by_group) {
  return call_.Add({.batch = &asked.batch,
                    .group = &asked.batch.groups()[0],
                    .operations = asked.operations,
                    .keys = asked.keys,
                    .id_key = asked.id_key,
                    .by_group = by_group,
                    .readable = asked.readable,
                    .session = asked.session}) == ScriptCall::Added::kYes;
}

void PermitPlayer::Fail(const std::string& what) {
  if (!difference_.empty()) return;
  difference_ = "step " + std::to_string(step_ - traffic_.steps.data()) + " (" + NameOf(step_->kind) +
                ") at " + std::to_string(now_.us) + ": " + what;
}

std::optional<std::string> PlayPermits(const PermitTraffic& traffic, const PermitStage& stage,
                                       PermitTally* tally) {
  const std::string difference = PermitPlayer(traffic, stage, tally).Play();
  if (difference.empty()) return std::nullopt;
  return difference;
}

}  // namespace penstock::fixtures
