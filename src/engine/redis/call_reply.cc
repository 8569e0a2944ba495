#include "engine/redis/call_reply.h"

#include <algorithm>
#include <cstring>

#include "core/permits.h"
#include "engine/redis/binding.h"
#include "engine/redis/call_format.h"
#include "engine/redis/keys.h"

namespace penstock::engine::redis {
namespace {

constexpr size_t kNumber = sizeof(double);

template <class Number>
Number Get(std::string_view bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

core::Charge ChargeAt(const char* in) {
  const auto number = [in](size_t i) { return GetDouble(in + i * kNumber); };
  return {.at = {number(0)},
          .window = {number(1)},
          .debt_before = number(2),
          .cost = number(3),
          .version = number(4)};
}

// What the bytes of a group's head, and what follows it, brought to hold; the holder's name has done its work. Null: these
// are no such bytes, or the group brings nothing.
struct HeadAsk {
  core::PermitAsk ask;
  size_t bytes = 0;  // of it, 0: none
};
HeadAsk AskBehind(std::string_view head) {
  HeadAsk out;
  if ((static_cast<uint8_t>(head[1]) & kAskFlag) == 0 || head.size() < kGroupBytes + kAskBytes) return out;
  const char* const in = head.data() + kGroupBytes;
  out.ask.id = TakeHash(in);
  out.ask.lease = {GetDouble(in + 24)};
  out.ask.queue_for = {GetDouble(in + 32)};
  out.bytes = kAskBytes + Get<uint16_t>(head, kGroupBytes + 40);
  return out;
}

// Until who is the first in a queue asks again by himself: an expiry wakes nobody, and a wake-up may be lost. Who stands
// behind others has nothing to ask for; when his turn comes his session sees it (queue_watch.h).
constexpr Micros kAskAgainAtMost = Seconds(1);
// Once at most within the longest max_wait, so that a grant costs no third call.
constexpr Micros kAskAgainBehind = Seconds(45);

bool HasBucket(const core::Limit& limit) { return limit.params.kind == core::RateKind::kFinite; }

// The operation that stands in a call's or a record's bytes, for a limit that was unpacked.
void Rebuild(std::string_view bytes, const core::Limit& limit, core::Operation& operation) {
  operation = {};
  operation.limit = &limit;
  operation.unit = static_cast<uint8_t>(bytes[4]);
  operation.cost = GetDouble(&bytes[6]);
}

}  // namespace

std::string_view ReplyReader::Take(size_t bytes) {
  const std::string_view out = reply_.substr(0, bytes);
  reply_.remove_prefix(out.size());
  return out;
}

void ReplyReader::ReadAll() {
  const std::string_view now = Take(kNumber);
  bool sense = now.size() == kNumber;
  if (sense) call_.now_ = {GetDouble(now.data())};
  for (Sent& sent : call_.sent_) {
    sense = sense && ReadGroup(sent);
    if (!sense) Refuse(sent, Answer::kBroken, GroupState::kUnavailable, Reason::kEngineDown);
  }
  call_.reclaimed_ = sense && reply_.size() == kNumber ? GetDouble(reply_.data()) : 0;
}

ReplyReader::Asked ReplyReader::AskedOf(const Sent& sent) const {
  Asked asked;
  asked.plain = call_.kind_ != ScriptKind::kGroup;
  const std::string_view bytes = std::string_view(call_.groups_).substr(sent.at);
  if (asked.plain) {
    asked.each = kPlainBytes;
    if (call_.kind_ != ScriptKind::kPermits) return asked;
    asked.each = kPlainPermitsBytes;
    asked.asks = true;
    asked.ask.id = TakeHash(&bytes[8]);
    asked.ask.lease = {GetDouble(&bytes[24])};
    return asked;
  }
  asked.mode = static_cast<Mode>(bytes[0]);
  const auto flags = static_cast<uint8_t>(bytes[1]);
  asked.options.force = (flags & kForceFlag) != 0;
  asked.options.partial = (flags & kPartialFlag) != 0;
  asked.options.dry = (flags & kDryFlag) != 0;
  asked.options.max_wait = {GetDouble(&bytes[6])};
  asked.id = Get<uint16_t>(bytes, 4);
  const HeadAsk ask = AskBehind(bytes);
  asked.asks = ask.bytes > 0;
  asked.ask = ask.ask;
  asked.head = kGroupBytes + ask.bytes;
  asked.each = kOperationBytes + (asked.mode == Mode::kAdjust ? kChargeBytes : 0);
  return asked;
}

bool ReplyReader::ReadGroup(Sent& sent) {
  const std::string_view letter = Take(1);
  if (letter.empty()) return false;
  Asked asked = AskedOf(sent);
  if (asked.asks) asked.options.permit = &asked.ask;
  switch (letter[0]) {
    case 'A':
    case 'a':
    case 'R':
      return asked.mode == Mode::kCheck && ReadDecided(sent, asked, letter[0]);
    case 'D':
      if (asked.mode == Mode::kReset) {
        Reset(sent, asked);
        return true;
      }
      return asked.mode != Mode::kCheck && ReadChanged(sent, asked);
    case 'P':  // a plain call has no ids, and its bytes are others
      return !asked.plain && ReadReplay(sent, asked);
    case 'H':
      return asked.mode == Mode::kHolders && ReadHolders(sent, asked);
    case 'O':
      sent.answer = Answer::kAskGroup;
      return true;
    case 'S':
      Refuse(sent, Answer::kDecided, GroupState::kStale, Reason::kNone);
      return true;
    case 'C':
      Refuse(sent, Answer::kDecided, GroupState::kStaleClock, Reason::kNone);
      return true;
    case 'K':
      Refuse(sent, Answer::kDecided, GroupState::kConflict, Reason::kNone);
      return true;
    case 'U':
      Refuse(sent, Answer::kDecided, GroupState::kUnknownId, Reason::kNone);
      return true;
    case 'T':
      return ReadUnguarded(sent);
    case 'L':
      Refuse(sent, Answer::kLate, GroupState::kUnavailable, Reason::kTimeout);
      return true;
    case 'F':
      Refuse(sent, Answer::kFull, GroupState::kUnavailable, Reason::kFull);
      return true;
    case 'X':
      Refuse(sent, Answer::kForeign, GroupState::kUnavailable, Reason::kEngineDown);
      return true;
    case 'N':
      Refuse(sent, Answer::kNewer, GroupState::kUnavailable, Reason::kEngineDown);
      return true;
    default:
      return false;
  }
}

std::span<core::Operation> ReplyReader::Borrow(const Sent& sent, const Asked& asked) {
  core::Operation* const* const own = call_.operations_.data() + sent.first;
  if (room_.found.size() < sent.count) room_.found.resize(sent.count);
  if (sent.group != nullptr) {
    bool together = true;
    for (uint32_t i = 1; i < sent.count; ++i) together = together && own[i] == own[0] + i;
    if (together) return {sent.count == 0 ? nullptr : own[0], sent.count};
  }
  room_.operations.resize(sent.count);
  if (sent.group != nullptr) {
    for (uint32_t i = 0; i < sent.count; ++i) room_.operations[i] = *own[i];
    return room_.operations;
  }
  room_.limits.resize(std::max<size_t>(room_.limits.size(), sent.count));
  room_.edges.resize(sent.count);
  std::string_view bytes = std::string_view(call_.groups_).substr(sent.at + asked.head);
  for (uint32_t i = 0; i < sent.count; ++i) {
    const size_t limit_at = Get<uint16_t>(bytes, 2) * PackedLimit::kBytes;
    const PackedLimit packed(std::string_view(call_.limits_).substr(limit_at));
    core::Limit& limit = room_.limits[i];
    packed.Unpack(limit);
    limit.shadow = !asked.plain && (static_cast<uint8_t>(bytes[5]) & kShadowFlag) != 0;
    limit.strict = !asked.plain && (static_cast<uint8_t>(bytes[5]) & kStrictFlag) != 0;
    room_.edges[i] = packed.edges();
    if (asked.plain) {
      room_.operations[i] = {};
      room_.operations[i].limit = &limit;
      room_.operations[i].cost = Get<uint32_t>(bytes, 4);
    } else {
      Rebuild(bytes, limit, room_.operations[i]);
    }
    bytes.remove_prefix(asked.each);
    room_.operations[i].boundaries = &room_.edges[i];
  }
  return room_.operations;
}

void ReplyReader::GiveBack(const Sent& sent, std::span<const core::Operation> operations) {
  if (sent.group == nullptr || operations.empty()) return;
  core::Operation* const* const own = call_.operations_.data() + sent.first;
  if (operations.data() == own[0]) return;
  for (size_t i = 0; i < operations.size(); ++i) *own[i] = operations[i];
}

void ReplyReader::Refuse(Sent& sent, Answer answer, GroupState state, Reason reason) {
  sent.answer = answer;
  sent.state = state;
  if (sent.group == nullptr) return;
  sent.group->result = {.state = state, .reason = reason, .now = call_.now_};
  for (uint32_t i = 0; i < sent.count; ++i) {
    core::Operation& operation = *call_.operations_[sent.first + i];
    operation.verdict = {};
    operation.edit = {};
    operation.charge = {};
    operation.skipped = false;
  }
}

void ReplyReader::Decided(Sent& sent, GroupState state) {
  sent.answer = Answer::kDecided;
  sent.state = state;
  if (sent.group != nullptr) sent.group->result = {.state = state, .now = call_.now_};
}

bool ReplyReader::ReadDecided(Sent& sent, const Asked& asked, char letter) {
  const std::span<core::Operation> operations = Borrow(sent, asked);
  for (size_t i = 0; i < operations.size(); ++i) {
    core::Operation& operation = operations[i];
    operation.skipped = false;
    if (!HasBucket(*operation.limit)) continue;
    if (operation.limit->strict) {
      const std::string_view from = Take(kNumber);
      if (from.size() != kNumber) return false;
      operation.granted_from = {GetDouble(from.data())};
    }
    if (!TakeFound(*operation.limit, reply_, room_.found[i], operation.bucket)) return false;
  }
  const core::GroupStatus status = core::DecideGroup(operations, asked.options, call_.now_);
  for (size_t i = 0; i < operations.size(); ++i) {
    core::Verdict& verdict = operations[i].verdict;
    verdict.queued = verdict.queued && !room_.found[i].queue_full;
  }
  const Outcome outcome = asked.plain ? operations[0].verdict.outcome : core::GroupOutcome(operations);
  const bool charged = !asked.options.dry && outcome == Outcome::kAllowed;
  if (status != core::GroupStatus::kDecided || charged != (letter != 'R')) {
    Refuse(sent, Answer::kBroken, GroupState::kUnavailable, Reason::kEngineDown);
    return true;
  }
  const auto has_charge = [](const core::Operation& operation) { return operation.charge.cost != 0; };
  sent.charged = std::any_of(operations.begin(), operations.end(), has_charge);
  sent.id_kept = sent.charged && letter == 'A' && asked.id != 0;
  GiveBack(sent, operations);
  Decided(sent, GroupState::kDecided);
  if (sent.group != nullptr) {
    GroupResult& result = sent.group->result;
    result.replayable = letter != 'a';
    if (std::any_of(operations.begin(), operations.end(), core::GrantsPermit))
      result.permit_id = asked.ask.id;
    for (const core::Operation& operation : operations) {
      if (!operation.verdict.queued) continue;
      result.queued = true;
      result.ask_again_after = operation.bucket.overtakes ? kAskAgainBehind
                                                          : std::clamp(operation.verdict.retry_after,
                                                                       Micros{1'000}, kAskAgainAtMost);
    }
  } else if (sent.charged) {
    const size_t before = undo_.size();
    call_.TakeBack(sent, operations, undo_);
    for (size_t i = before; i < undo_.size(); ++i) undo_[i].unless_replayed = true;
  }
  return true;
}

bool ReplyReader::ReadChanged(Sent& sent, const Asked& asked) {
  const std::span<core::Operation> operations = Borrow(sent, asked);
  for (size_t i = 0; i < operations.size(); ++i) {
    core::Operation& operation = operations[i];
    const std::string_view told = Take(1 + kChargeBytes);
    if (told.size() != 1 + kChargeBytes) return false;
    const auto flags = static_cast<uint8_t>(told[0]);
    const int64_t cost = operation.cost;
    if (HasBucket(*operation.limit)) {
      if (!TakeFound(*operation.limit, reply_, room_.found[i], operation.bucket)) return false;
    }
    operation.cost = 0;
    const bool left_alone = (flags & kLeftAloneFlag) != 0;
    if (!left_alone && core::DecideGroup({&operation, 1}, {}, call_.now_) != core::GroupStatus::kDecided)
      return false;
    if (left_alone) {
      operation.verdict = {};
      ++sent.dropped;
    }
    operation.cost = cost;
    operation.edit.write = false;
    operation.verdict.saturated = (flags & kSaturatedFlag) != 0;
    operation.charge = ChargeAt(&told[1]);
    operation.skipped = (flags & kSkippedFlag) != 0;
  }
  GiveBack(sent, operations);
  Decided(sent, GroupState::kDecided);
  return true;
}

// The verdicts are those of a peek at the empty buckets.
void ReplyReader::Reset(Sent& sent, const Asked& asked) {
  const std::span<core::Operation> operations = Borrow(sent, asked);
  for (core::Operation& operation : operations) {
    operation.bucket = {};
    operation.cost = 0;
    operation.skipped = false;
  }
  const core::GroupStatus status = core::DecideGroup(operations, asked.options, call_.now_);
  GiveBack(sent, operations);
  if (status == core::GroupStatus::kDecided) return Decided(sent, GroupState::kDecided);
  Refuse(sent, Answer::kDecided, GroupState::kStaleClock, Reason::kNone);
}

// Fills room_.operations with the first answer, from what it was decided by.
bool ReplyReader::DecideAgain(std::string_view first_answer, size_t count, Hash128& permit) {
  if (first_answer.size() < kNumber + kGroupBytes) return false;
  const EngineTime then{GetDouble(first_answer.data())};
  const std::string_view whole = first_answer.substr(kNumber);
  const std::string_view head = whole.substr(0, kGroupBytes);
  first_answer.remove_prefix(kNumber + kGroupBytes);
  const auto flags = static_cast<uint8_t>(head[1]);
  const HeadAsk ask = AskBehind(whole);
  if ((flags & kAskFlag) != 0 && (ask.bytes == 0 || first_answer.size() < ask.bytes)) return false;
  first_answer.remove_prefix(ask.bytes);
  permit = ask.ask.id;
  const core::GroupOptions options{.max_wait = {GetDouble(&head[6])},
                                   .force = (flags & kForceFlag) != 0,
                                   .partial = (flags & kPartialFlag) != 0,
                                   .permit = ask.bytes > 0 ? &ask.ask : nullptr};
  if (room_.found.size() < count) room_.found.resize(count);
  room_.operations.resize(count);
  room_.limits.resize(std::max(room_.limits.size(), count));
  room_.edges.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (first_answer.size() < kOperationBytes + PackedLimit::kBytes) return false;
    const std::string_view bytes = first_answer.substr(0, kOperationBytes);
    const PackedLimit packed(first_answer.substr(kOperationBytes));
    first_answer.remove_prefix(kOperationBytes + PackedLimit::kBytes);
    core::Limit& limit = room_.limits[i];
    if (!packed.Unpack(limit)) return false;
    limit.shadow = (static_cast<uint8_t>(bytes[5]) & kShadowFlag) != 0;
    limit.strict = (static_cast<uint8_t>(bytes[5]) & kStrictFlag) != 0;
    Rebuild(bytes, limit, room_.operations[i]);
    room_.edges[i] = packed.edges();
    room_.operations[i].boundaries = &room_.edges[i];
    if (!HasBucket(limit)) continue;
    if (limit.strict) {
      if (first_answer.size() < kNumber) return false;
      room_.operations[i].granted_from = {GetDouble(first_answer.data())};
      first_answer.remove_prefix(kNumber);
    }
    if (!TakeFound(limit, first_answer, room_.found[i], room_.operations[i].bucket)) return false;
  }
  return first_answer.empty() &&
         core::DecideGroup(room_.operations, options, then) == core::GroupStatus::kDecided;
}

bool ReplyReader::ReadReplay(Sent& sent, const Asked& asked_now) {
  const std::string_view size = Take(sizeof(uint32_t));
  if (size.size() != sizeof(uint32_t)) return false;
  const std::string_view record = Take(Get<uint32_t>(size, 0));
  if (record.size() != Get<uint32_t>(size, 0) || record.size() < kRecordBytes) return false;
  const size_t count = Get<uint16_t>(record, kRecordBytes - sizeof(uint16_t));
  const std::string_view rows = record.substr(kRecordBytes, count * kRowBytes);
  if (rows.size() != count * kRowBytes) return false;
  Hash128 permit;
  if (!DecideAgain(record.substr(kRecordBytes + rows.size()), count, permit)) {
    Refuse(sent, Answer::kForeign, GroupState::kUnavailable, Reason::kEngineDown);
    return true;
  }
  Decided(sent, GroupState::kDecided);
  if (sent.group == nullptr) return true;
  sent.group->result.replayed = true;
  const std::string_view asked = std::string_view(call_.groups_).substr(sent.at + asked_now.head);
  for (uint32_t i = 0; i < sent.count; ++i) {
    core::Operation& operation = *call_.operations_[sent.first + i];
    const auto name = Get<uint64_t>(asked, i * kOperationBytes + kNameAt);
    operation.skipped = true;
    operation.verdict = {};
    operation.edit = {};
    operation.charge = {};
    for (size_t j = 0; j < count && operation.skipped; ++j) {
      if (Get<uint64_t>(rows, j * kRowBytes) != name) continue;
      operation.skipped = false;
      operation.verdict = room_.operations[j].verdict;
      operation.charge = ChargeAt(&rows[j * kRowBytes + sizeof name + 1]);
      if (core::GrantsPermit(operation)) sent.group->result.permit_id = permit;
    }
  }
  return true;
}

bool ReplyReader::ReadHolders(Sent& sent, const Asked& asked) {
  constexpr size_t kTotals = 3 * kNumber + 1 + sizeof(uint16_t);
  constexpr size_t kHolder = 16 + sizeof(uint32_t) + 2 * kNumber + sizeof(uint16_t);
  const std::span<core::Operation> operations = Borrow(sent, asked);
  if (operations.size() != 1) return false;
  core::Operation& operation = operations[0];
  if (!TakeFound(*operation.limit, reply_, room_.found[0], operation.bucket)) return false;
  operation.cost = 0;
  operation.skipped = false;
  // A listing by an older limit than the bucket's is one all the same.
  operation.bucket.version = std::min(operation.bucket.version, operation.limit->version);
  if (core::DecideGroup(operations, {}, call_.now_) != core::GroupStatus::kDecided) return false;
  operation.edit = {};
  const std::string_view totals = Take(kTotals);
  if (totals.size() != kTotals) return false;
  HolderList unheard;
  HolderList& list = sent.group != nullptr && sent.group->listing != nullptr ? *sent.group->listing : unheard;
  list.bucket = operation.name;
  list.in_use = GetDouble(totals.data());
  list.held = GetDouble(totals.data() + kNumber);
  list.waiting = GetDouble(totals.data() + 2 * kNumber);
  list.more = totals[3 * kNumber] != 0;
  list.entries.clear();
  for (auto left = Get<uint16_t>(totals, 3 * kNumber + 1); left > 0; --left) {
    const std::string_view bytes = Take(kHolder);
    if (bytes.size() != kHolder) return false;
    const auto size = Get<uint16_t>(bytes, kHolder - sizeof(uint16_t));
    const std::string_view name = Take(size);
    if (name.size() != size) return false;
    list.entries.push_back({.id = TakeHash(bytes.data()),
                            .weight = Get<uint32_t>(bytes, 16),
                            .fence = GetDouble(&bytes[20]),
                            .expires_in = EngineTime{GetDouble(&bytes[28])} - call_.now_,
                            .holder = std::string(name)});
  }
  GiveBack(sent, operations);
  Decided(sent, GroupState::kDecided);
  return true;
}

bool ReplyReader::ReadUnguarded(Sent& sent) {
  const std::string_view why = Take(1);
  const Answer answer = why == "1" ? Answer::kNoRun : why == "2" ? Answer::kNoReplicas : Answer::kLag;
  Refuse(sent, answer, GroupState::kUnavailable, Reason::kEngineDown);
  return why == "1" || why == "2" || why == "3";
}

bool ScriptCall::Read(std::span<const resp::ReplyNode> nodes, std::vector<Undo>& undo) {
  if (nodes.empty() || nodes[0].type != resp::ReplyType::kBulk) return false;
  ReplyReader(*this, nodes[0].text, undo).ReadAll();
  return true;
}

void ScriptCall::TakeBack(const Sent& sent, std::span<const core::Operation> operations,
                          std::vector<Undo>& undo) const {
  const bool plain = kind_ != ScriptKind::kGroup;
  std::string_view bytes = std::string_view(groups_).substr(sent.at);
  const uint16_t id = sent.id_kept ? Get<uint16_t>(bytes, 4) : uint16_t{0};
  Hash128 permit;
  size_t each = kOperationBytes;
  if (plain) {
    each = kind_ == ScriptKind::kPermits ? kPlainPermitsBytes : kPlainBytes;
    if (kind_ == ScriptKind::kPermits) permit = TakeHash(&bytes[8]);
  } else {
    const HeadAsk ask = AskBehind(bytes);
    permit = ask.ask.id;
    bytes.remove_prefix(kGroupBytes + ask.bytes);
  }
  for (const core::Operation& operation : operations) {
    const size_t limit_at = Get<uint16_t>(bytes, 2) * PackedLimit::kBytes;
    if (operation.charge.cost > 0) {
      undo.push_back({.key = std::string(KeyAt(Get<uint16_t>(bytes, 0))),
                      .limit = PackedLimit(std::string_view(limits_).substr(limit_at)),
                      .charge = operation.charge,
                      .shadow = operation.limit->shadow,
                      .id_key = std::string(KeyAt(id)),
                      .decided = now_,
                      .permit = core::GrantsPermit(operation) ? permit : Hash128{}});
    }
    bytes.remove_prefix(each);
  }
}

void ScriptCall::TakeBack(const Sent& sent, std::vector<Undo>& undo) const {
  if (sent.group == nullptr || !sent.charged) return;
  std::vector<core::Operation> operations;
  operations.reserve(sent.count);
  for (uint32_t i = 0; i < sent.count; ++i) operations.push_back(*operations_[sent.first + i]);
  TakeBack(sent, operations, undo);
}

}  // namespace penstock::engine::redis
