#include "engine/redis/call_reply.h"

#include <algorithm>
#include <cstring>

#include "engine/redis/binding.h"
#include "engine/redis/call_format.h"

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
}

ReplyReader::Asked ReplyReader::AskedOf(const Sent& sent) const {
  Asked asked;
  asked.plain = call_.kind_ != ScriptKind::kGroup;
  if (asked.plain) return asked;
  const std::string_view bytes = std::string_view(call_.groups_).substr(sent.at);
  asked.mode = static_cast<Mode>(bytes[0]);
  const auto flags = static_cast<uint8_t>(bytes[1]);
  asked.options.force = (flags & kForceFlag) != 0;
  asked.options.partial = (flags & kPartialFlag) != 0;
  asked.options.dry = (flags & kDryFlag) != 0;
  asked.options.max_wait = {GetDouble(&bytes[6])};
  asked.id = Get<uint16_t>(bytes, 4);
  return asked;
}

bool ReplyReader::ReadGroup(Sent& sent) {
  const std::string_view letter = Take(1);
  if (letter.empty()) return false;
  const Asked asked = AskedOf(sent);
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
      return !asked.plain && ReadReplay(sent);
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
  std::string_view bytes = std::string_view(call_.groups_).substr(sent.at);
  if (!asked.plain) bytes.remove_prefix(kGroupBytes);
  for (uint32_t i = 0; i < sent.count; ++i) {
    const size_t limit_at = Get<uint16_t>(bytes, 2) * PackedLimit::kBytes;
    const PackedLimit packed(std::string_view(call_.limits_).substr(limit_at));
    core::Limit& limit = room_.limits[i];
    packed.Unpack(limit);
    limit.shadow = !asked.plain && (static_cast<uint8_t>(bytes[5]) & kShadowFlag) != 0;
    room_.edges[i] = packed.edges();
    if (asked.plain) {
      room_.operations[i] = {};
      room_.operations[i].limit = &limit;
      room_.operations[i].cost = Get<uint32_t>(bytes, 4);
      bytes.remove_prefix(kPlainBytes);
    } else {
      Rebuild(bytes, limit, room_.operations[i]);
      bytes.remove_prefix(kOperationBytes + (asked.mode == Mode::kAdjust ? kChargeBytes : 0));
    }
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
    if (!TakeFound(*operation.limit, reply_, room_.found[i], operation.bucket)) return false;
  }
  const core::GroupStatus status = core::DecideGroup(operations, asked.options, call_.now_);
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
    sent.group->result.replayable = letter != 'a';
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
bool ReplyReader::DecideAgain(std::string_view first_answer, size_t count) {
  if (first_answer.size() < kNumber + kGroupBytes) return false;
  const EngineTime then{GetDouble(first_answer.data())};
  const std::string_view head = first_answer.substr(kNumber, kGroupBytes);
  first_answer.remove_prefix(kNumber + kGroupBytes);
  const auto flags = static_cast<uint8_t>(head[1]);
  const core::GroupOptions options{.max_wait = {GetDouble(&head[6])},
                                   .force = (flags & kForceFlag) != 0,
                                   .partial = (flags & kPartialFlag) != 0};
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
    Rebuild(bytes, limit, room_.operations[i]);
    room_.edges[i] = packed.edges();
    room_.operations[i].boundaries = &room_.edges[i];
    if (!HasBucket(limit)) continue;
    if (!TakeFound(limit, first_answer, room_.found[i], room_.operations[i].bucket)) return false;
  }
  return first_answer.empty() &&
         core::DecideGroup(room_.operations, options, then) == core::GroupStatus::kDecided;
}

bool ReplyReader::ReadReplay(Sent& sent) {
  const std::string_view size = Take(sizeof(uint32_t));
  if (size.size() != sizeof(uint32_t)) return false;
  const std::string_view record = Take(Get<uint32_t>(size, 0));
  if (record.size() != Get<uint32_t>(size, 0) || record.size() < kRecordBytes) return false;
  const size_t count = Get<uint16_t>(record, kRecordBytes - sizeof(uint16_t));
  const std::string_view rows = record.substr(kRecordBytes, count * kRowBytes);
  if (rows.size() != count * kRowBytes) return false;
  if (!DecideAgain(record.substr(kRecordBytes + rows.size()), count)) {
    Refuse(sent, Answer::kForeign, GroupState::kUnavailable, Reason::kEngineDown);
    return true;
  }
  Decided(sent, GroupState::kDecided);
  if (sent.group == nullptr) return true;
  sent.group->result.replayed = true;
  const std::string_view asked = std::string_view(call_.groups_).substr(sent.at + kGroupBytes);
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
    }
  }
  return true;
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
  if (!plain) bytes.remove_prefix(kGroupBytes);
  for (const core::Operation& operation : operations) {
    const size_t limit_at = Get<uint16_t>(bytes, 2) * PackedLimit::kBytes;
    if (operation.charge.cost > 0) {
      undo.push_back({.key = std::string(KeyAt(Get<uint16_t>(bytes, 0))),
                      .limit = PackedLimit(std::string_view(limits_).substr(limit_at)),
                      .charge = operation.charge,
                      .shadow = operation.limit->shadow,
                      .id_key = std::string(KeyAt(id)),
                      .decided = now_});
    }
    bytes.remove_prefix(plain ? kPlainBytes : kOperationBytes);
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
