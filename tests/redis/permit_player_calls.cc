// Undos, and what is asked about permits by their numbers: as permit_player.cc, asked and judged at once.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/redis/keys.h"
#include "engine/redis/packed_limit.h"
#include "redis/fixture_error.h"
#include "redis/permit_player.h"
#include "redis/script_clock.h"
#include "resp/writer.h"

namespace penstock::fixtures {
namespace {

using engine::redis::Append;
using engine::redis::AppendDouble;
using engine::redis::ScriptCall;
using engine::redis::ScriptKind;

constexpr char kLeaveVerb = 2;
constexpr char kLookVerb = 3;

int64_t TakeNumber(std::string_view& text) {
  double value = -1;
  if (text.size() < sizeof value) return -1;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return static_cast<int64_t>(value);
}

size_t TakeByte(std::string_view& text) {
  const size_t byte = text.empty() ? 0 : static_cast<unsigned char>(text[0]);
  text.remove_prefix(std::min<size_t>(text.size(), 1));
  return byte;
}

char LetterOf(core::PermitFate fate) {
  switch (fate) {
    case core::PermitFate::kReleased:
      return 'r';
    case core::PermitFate::kRenewed:
      return 'n';
    case core::PermitFate::kExpired:
      return 'e';
    default:
      return 'u';
  }
}

}  // namespace

void PermitPlayer::Undo(const PermitStep& step) {
  if (permits_.empty()) return;
  Permit& permit = permits_[static_cast<size_t>(step.back) % permits_.size()];
  if (permit.undo.empty()) return;
  std::vector<engine::redis::Undo> undo = std::exchange(permit.undo, {});
  const bool unless = step.variant % 2 == 0;
  for (engine::redis::Undo& one : undo) one.unless_replayed = unless;
  call_.Clear();
  if (call_.AddUndo(undo, 1) != ScriptCall::Added::kYes) throw FixtureError("an undo does not fit");
  Send();
  if (!difference_.empty()) return;
  Record* const record = undo[0].id_key.empty() ? nullptr : permit.record.get();
  const bool known =
      record == nullptr || (record->kept && record->asker == permit.id && now_ < record->expires &&
                            record->decided == undo[0].decided && !(unless && record->replayed));
  const engine::GroupState state = known ? engine::GroupState::kDecided : engine::GroupState::kUnknownId;
  const ScriptCall::Sent& sent = call_.sent()[0];
  if (sent.answer != ScriptCall::Answer::kDecided || sent.state != state || sent.dropped != 0)
    return Fail("an undo has answer " + std::to_string(static_cast<int>(sent.answer)) + " state " +
                std::to_string(static_cast<int>(sent.state)) + " dropped " + std::to_string(sent.dropped));
  if (!known) return;
  if (record != nullptr) record->kept = false;
  const core::PermitAsk ask{.id = permit.id};
  for (size_t i = 0; i < permit.places.size(); ++i) {
    if (permit.charges[i].cost == 0) continue;
    JudgedBucket& bucket = buckets_[permit.places[i]];
    // By what it was charged by, whatever the limit has become.
    const core::Version version = permit.charges[i].version;
    core::Operation operation;
    operation.limit = bucket.versions[static_cast<size_t>(version) - 1].get();
    operation.bucket = bucket.View(ask.id, 0, true, now_);
    operation.bucket.version = std::min(operation.bucket.version, version);
    core::AdjustCharge(operation, permit.charges[i], -permit.charges[i].cost, now_, &ask);
    bucket.Apply(*operation.limit, operation, ask, 0, now_);
    bucket.Lapse(now_.us);
  }
}

void PermitPlayer::AddCall(const Permit& permit, char verb, const PermitStep& step, std::string& bytes) {
  for (size_t i = 0; i < permit.places.size(); ++i) {
    if (permit.places[i] == kRate) continue;
    const core::Charge charge = permit.charges.empty() ? core::Charge{} : permit.charges[i];
    const bool of_holder = verb < kLeaveVerb;
    if (of_holder && (charge.cost == 0 || permit.waits)) continue;
    calls_.push_back({permit.places[i], verb, permit.id, permit.session, {step.lease}});
    Append(bytes, static_cast<uint16_t>(permit.places[i] + 1));
    bytes += verb;
    engine::redis::AppendHash(bytes, permit.id);
    Append(bytes, static_cast<uint32_t>(of_holder ? charge.cost : 1));
    if (of_holder) {
      AppendDouble(bytes, charge.window.us);
    } else {
      Append(bytes, permit.session);
    }
    AppendDouble(bytes, step.lease);
  }
}

// The calls of a step, as bytes.
std::string PermitPlayer::ChooseCalls(const PermitStep& step) {
  std::string bytes;
  calls_.clear();
  if (step.kind == Kind::kLook) {
    Permit nobody;
    nobody.places = {static_cast<size_t>(step.limits) % kRate};
    nobody.session = 100 + static_cast<uint64_t>(step.session);
    AddCall(nobody, kLookVerb, step, bytes);
    return bytes;
  }
  const size_t count = permits_.empty() ? 0 : 1 + static_cast<size_t>(step.variant) % 4;
  for (size_t n = 0; n < count; ++n) {
    const size_t back = (static_cast<size_t>(step.back) + n * static_cast<size_t>(step.session)) % 8;
    const Permit& permit = permits_[back % permits_.size()];
    char verb = static_cast<char>((static_cast<size_t>(step.variant) / 7 + n) % 2);
    if (permit.waits || step.variant % 29 == 0) verb = kLeaveVerb;
    AddCall(permit, verb, step, bytes);
  }
  // A script call is one session's.
  const auto others = [&](const OneCall& call) { return call.session != calls_[0].session; };
  if (std::ranges::any_of(calls_, others)) calls_.clear();
  return bytes;
}

void PermitPlayer::Call(const PermitStep& step) {
  const std::string bytes = ChooseCalls(step);
  if (calls_.empty()) return;
  std::string never;
  AppendDouble(never, core::kMaxExact);
  std::string command = stage_.own_clock ? SetScriptClock(now_) : "";
  const std::string& sha = stage_.scripts[static_cast<size_t>(ScriptKind::kPermitCalls)].sha1;
  resp::AppendCommand(command, {"EVALSHA", sha, "2", keys_[0], keys_[1], never, "", bytes});
  stage_.node.Send(command);
  if (stage_.own_clock) stage_.node.Receive();
  const ReplyValue reply = stage_.node.Receive();
  if (reply.is_error()) return Fail("no answer to calls: " + reply.text);
  std::string_view text = reply.text;
  const EngineTime told{TakeNumber(text)};
  if (stage_.own_clock && told != now_) return Fail("another clock than was set");
  now_ = told;
  for (const OneCall& call : calls_) {
    if (difference_.empty()) call.verb == kLookVerb ? JudgeLook(call, text) : JudgeCall(call, text);
  }
}

void PermitPlayer::JudgeLook(const OneCall& call, std::string_view& text) {
  JudgedBucket& bucket = buckets_[call.place];
  const std::vector<Hash128> turns = bucket.Turns(call.session, now_);
  std::vector<Hash128> heard;
  const bool waits = TakeByte(text) == 'h';
  if (waits) {
    const int64_t nearest = TakeNumber(text);
    if (nearest < 1) return Fail("a look: " + std::to_string(nearest) + " to the nearest expiry");
    for (size_t left = TakeByte(text); left > 0 && text.size() >= sizeof(Hash128); --left) {
      heard.push_back(engine::redis::TakeHash(text.data()));
      text.remove_prefix(sizeof(Hash128));
    }
  }
  if (tally_ != nullptr) tally_->turns += static_cast<int64_t>(turns.size());
  if (heard != turns || (!waits && bucket.AnybodyWaits())) {
    Fail("a look at limit " + std::to_string(call.place) + ": told of " + std::to_string(heard.size()) +
         " turns, the judge of " + std::to_string(turns.size()));
  }
}

void PermitPlayer::JudgeCall(const OneCall& call, std::string_view& text) {
  JudgedBucket& bucket = buckets_[call.place];
  const JudgedBucket::Fate fate = call.verb == 0   ? bucket.Release(call.id, now_)
                                  : call.verb == 1 ? bucket.Renew(call.id, call.lease, now_)
                                                   : bucket.Leave(call.id, now_);
  const char letter = static_cast<char>(TakeByte(text));
  const Micros left{letter == 'n' ? TakeNumber(text) : 0};
  const char expected = LetterOf(fate.fate);
  const bool done = expected == 'r' || expected == 'n';
  if (tally_ != nullptr) ++tally_->by_verb[static_cast<size_t>(call.verb) * 2 + (done ? 0 : 1)];
  const bool known_otherwise =
      bucket.lease_changed && (letter == 'e' || letter == 'u') && (expected == 'e' || expected == 'u');
  if ((letter != expected && !known_otherwise) || left != fate.left) {
    return Fail("verb " + std::to_string(int{call.verb}) + " of permit " + std::to_string(call.id.low) +
                " at limit " + std::to_string(call.place) + ": told " + letter + " " +
                std::to_string(left.count) + ", the judge " + expected + " " +
                std::to_string(fate.left.count));
  }
  if (call.verb != kLeaveVerb) return;
  for (Permit& permit : permits_) permit.waits = permit.waits && permit.id != call.id;
}

}  // namespace penstock::fixtures
