#include "engine/redis/script_call.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "engine/redis/binding.h"
#include "engine/redis/call_format.h"
#include "engine/redis/keys.h"

namespace penstock::engine::redis {
namespace {

void AppendNumber(std::string& out, char type, size_t number) {
  char digits[24];
  digits[0] = type;
  char* const end = std::to_chars(digits + 1, digits + 22, number).ptr;
  end[0] = '\r';
  end[1] = '\n';
  out.append(digits, end + 2);
}

void AppendBulk(std::string& out, std::string_view bytes) {
  AppendNumber(out, '$', bytes.size());
  out += bytes;
  out += "\r\n";
}

void AppendCharge(std::string& out, const core::Charge& charge) {
  for (const int64_t part :
       {charge.at.us, charge.window.us, charge.debt_before, charge.cost, charge.version}) {
    AppendDouble(out, part);
  }
}

// Whether the plain script of its algorithm can decide the part.
bool IsPlain(const CallPart& part) {
  const engine::Group& group = *part.group;
  if (part.operations.size() != 1 || part.by_group || !part.marker.empty() || group.mode != Mode::kCheck ||
      !part.id_key.empty())
    return false;
  const core::GroupOptions& options = group.options;
  if (options.force || options.partial || options.dry || options.max_wait.count != 0) return false;
  const core::Operation& operation = *part.operations[0];
  const core::LimitParams& params = operation.limit->params;
  if (core::IsCalendar(params.window) && operation.boundaries == nullptr) return false;
  if (core::IsPermits(*operation.limit)) {
    const core::PermitAsk* const ask = options.permit;
    if (ask == nullptr || ask->queue_for.count > 0 || !ask->holder.empty()) return false;
  }
  return operation.cost > 0 && params.kind == core::RateKind::kFinite;
}

}  // namespace

void ScriptCall::Clear() {
  sent_.clear();
  operations_.clear();
  keys_.clear();
  limits_.clear();
  groups_.clear();
  readable_.clear();
  key_places_.clear();
  sent_limits_.clear();
  command_.clear();
  not_after_ = {core::kMaxExact};
  marker_ = 0;
  max_lag_ = {};
}

void ScriptCall::Begin(ScriptKind kind) {
  kind_ = kind;
  key_table_.fill(0);
}

bool ScriptCall::HasRoom(size_t operations, size_t bytes) const {
  return sent_.size() < kMaxGroups && operations_.size() + operations <= kMaxOperations &&
         keys_.size() + limits_.size() + groups_.size() + readable_.size() + bytes <= kMaxBytes;
}

uint16_t ScriptCall::AddKey(std::string_view key) {
  size_t place = static_cast<size_t>(Checksum64(key)) % kKeyTable;
  for (; key_table_[place] != 0; place = (place + 1) % kKeyTable) {
    if (KeyAt(key_table_[place]) == key) return key_table_[place];
  }
  AppendNumber(keys_, '$', key.size());
  key_places_.push_back({static_cast<uint32_t>(keys_.size()), static_cast<uint32_t>(key.size())});
  keys_ += key;
  keys_ += "\r\n";
  const auto number = static_cast<uint16_t>(key_places_.size());
  key_table_[place] = number;
  return number;
}

std::string_view ScriptCall::KeyAt(uint16_t number) const {
  if (number == 0) return {};
  const KeyPlace& place = key_places_[number - 1u];
  return std::string_view(keys_).substr(place.at, place.size);
}

uint16_t ScriptCall::AddPackedLimit(const PackedLimit& limit) {
  limits_ += limit.view();
  sent_limits_.emplace_back();
  return static_cast<uint16_t>(sent_limits_.size() - 1);
}

// A call has few limits, and neighbours often the same: the last ones are compared, that is all.
uint16_t ScriptCall::AddLimit(const core::Limit& limit, const core::WindowBoundaries* edges) {
  const auto same_edges = [](const core::WindowBoundaries& a, const core::WindowBoundaries& b) {
    return a.previous == b.previous && a.current == b.current && a.next == b.next &&
           a.end_of_next == b.end_of_next;
  };
  const core::WindowBoundaries known = edges == nullptr ? core::WindowBoundaries{} : *edges;
  const size_t oldest = sent_limits_.size() - std::min(sent_limits_.size(), kLimitsCompared);
  for (size_t i = sent_limits_.size(); i-- > oldest;) {
    if (sent_limits_[i].limit == &limit && same_edges(sent_limits_[i].edges, known))
      return static_cast<uint16_t>(i);
  }
  const size_t at = limits_.size();
  const uint16_t number = AddPackedLimit(BindingOf(limit).packed);
  sent_limits_.back() = {&limit, known};
  if (edges != nullptr) {
    PackedLimit packed(std::string_view(limits_).substr(at));
    packed.SetEdges(*edges);
    limits_.replace(at, PackedLimit::kBytes, packed.view());
  }
  return number;
}

ScriptCall::Added ScriptCall::Add(const CallPart& part) {
  const bool plain = IsPlain(part);
  const ScriptKind kind =
      plain ? static_cast<ScriptKind>(part.operations[0]->limit->params.algorithm) : ScriptKind::kGroup;
  size_t bytes = kGroupBytes + part.id_key.size() + part.marker.size();
  for (const std::string_view key : part.keys)
    bytes += key.size() + PackedLimit::kBytes + kOperationBytes + kChargeBytes;
  for (const std::string_view name : part.readable) bytes += name.size();
  if (part.group->options.permit != nullptr) bytes += kAskBytes + part.group->options.permit->holder.size();
  if (empty()) {
    Begin(kind);
  } else if (kind_ != kind) {
    return Added::kOtherScript;
  } else if (!HasRoom(part.operations.size(), bytes)) {
    return Added::kFull;
  }
  sent_.push_back({.batch = part.batch,
                   .group = part.group,
                   .first = static_cast<uint32_t>(operations_.size()),
                   .count = static_cast<uint32_t>(part.operations.size()),
                   .at = static_cast<uint32_t>(groups_.size())});
  operations_.insert(operations_.end(), part.operations.begin(), part.operations.end());
  if (plain) {
    AddPlain(part);
  } else {
    AddToGroup(part);
  }
  return Added::kYes;
}

void ScriptCall::AddPlain(const CallPart& part) {
  const core::Operation& operation = *part.operations[0];
  const uint16_t key = AddKey(part.keys[0]);
  Append(groups_, key);
  const bool calendar = core::IsCalendar(operation.limit->params.window);
  Append(groups_, AddLimit(*operation.limit, calendar ? operation.boundaries : nullptr));
  Append(groups_, static_cast<uint32_t>(operation.cost));
  if (kind_ != ScriptKind::kPermits) return;
  AppendHash(groups_, part.group->options.permit->id);
  AppendDouble(groups_, part.group->options.permit->lease.count);
  if (!part.readable.empty()) AddReadable(key, part.readable[0]);
}

void ScriptCall::AddReadable(uint16_t key, std::string_view readable) {
  // New keys have the highest numbers: most names that are there already are seen by that.
  if (readable.empty() || key != key_places_.size()) return;
  Append(readable_, key);
  Append(readable_, static_cast<uint16_t>(readable.size()));
  readable_ += readable;
}

void ScriptCall::AddAsk(const CallPart& part) {
  const engine::Group& group = *part.group;
  const core::PermitAsk none;
  const core::PermitAsk& ask = group.options.permit == nullptr ? none : *group.options.permit;
  std::string_view holder = ask.holder;
  Micros lease = ask.lease;
  if (group.mode == Mode::kHolders && group.listing != nullptr) {
    holder = group.listing->only;
    if (group.listing->sums_only) lease = {-1};
  }
  AppendHash(groups_, ask.id);
  Append(groups_, part.session);
  AppendDouble(groups_, lease.count);
  AppendDouble(groups_, ask.queue_for.count);
  Append(groups_, static_cast<uint16_t>(holder.size()));
  groups_ += holder;
}

void ScriptCall::AddToGroup(const CallPart& part) {
  const engine::Group& group = *part.group;
  const core::GroupOptions& options = group.options;
  groups_ += static_cast<char>(group.mode);
  const bool asks = options.permit != nullptr || group.mode == Mode::kHolders;
  groups_ += static_cast<char>((options.force ? kForceFlag : 0) | (options.partial ? kPartialFlag : 0) |
                               (options.dry ? kDryFlag : 0) | (group.keep_id_anyway ? kKeepIdFlag : 0) |
                               (asks ? kAskFlag : 0));
  Append(groups_, static_cast<uint16_t>(part.operations.size()));
  Append(groups_, part.id_key.empty() ? uint16_t{0} : AddKey(part.id_key));
  AppendDouble(groups_, options.max_wait.count);
  AppendDouble(groups_, group.mode == Mode::kAdjust ? 0 : group.keep_id.count);
  Append(groups_, group.fingerprint);
  if (asks) AddAsk(part);
  const bool strict = group.mode == Mode::kCheck && !part.marker.empty();
  if (strict) marker_ = AddKey(part.marker);
  for (size_t i = 0; i < part.operations.size(); ++i) {
    const core::Operation& operation = *part.operations[i];
    const core::Limit& limit = *operation.limit;
    const bool calendar = core::IsCalendar(limit.params.window);
    const uint16_t key = AddKey(part.keys[i]);  // without a number too: its bucket may know a newer version
    Append(groups_, key);
    if (!part.readable.empty()) AddReadable(key, part.readable[i]);
    Append(groups_, AddLimit(limit, calendar ? operation.boundaries : nullptr));
    groups_ += static_cast<char>(operation.unit);
    groups_ +=
        static_cast<char>((limit.shadow ? kShadowFlag : 0) | (strict && limit.strict ? kStrictFlag : 0));
    AppendDouble(groups_, operation.cost);
    Append(groups_, Checksum64(part.keys[i]));
    if (group.mode == Mode::kAdjust) AppendCharge(groups_, operation.charge);
  }
}

ScriptCall::Added ScriptCall::AddUndo(std::span<const Undo> undo, uint64_t tag) {
  size_t bytes = kGroupBytes + kAskBytes;
  for (const Undo& one : undo) {
    bytes += one.key.size() + one.id_key.size() + PackedLimit::kBytes + kOperationBytes + kChargeBytes;
  }
  if (empty()) {
    Begin(ScriptKind::kGroup);
  } else if (kind_ != ScriptKind::kGroup) {
    return Added::kOtherScript;
  } else if (!HasRoom(undo.size(), bytes)) {
    return Added::kFull;
  }
  sent_.push_back({.tag = tag,
                   .undo = true,
                   .first = static_cast<uint32_t>(operations_.size()),
                   .count = static_cast<uint32_t>(undo.size()),
                   .at = static_cast<uint32_t>(groups_.size())});
  operations_.resize(operations_.size() + undo.size());
  const Undo& first = undo.front();
  Hash128 permit;
  for (const Undo& one : undo) permit = std::max(permit, one.permit);
  groups_ += static_cast<char>(Mode::kAdjust);
  groups_ += static_cast<char>(kUndoFlag | kAskFlag | (first.unless_replayed ? kUnlessReplayedFlag : 0));
  Append(groups_, static_cast<uint16_t>(undo.size()));
  Append(groups_, first.id_key.empty() ? uint16_t{0} : AddKey(first.id_key));
  AppendDouble(groups_, 0);
  AppendDouble(groups_, first.decided.us);
  Append(groups_, uint64_t{0});
  AppendHash(groups_, permit);
  groups_.append(kAskBytes - sizeof permit, 0);
  for (const Undo& one : undo) {
    Append(groups_, AddKey(one.key));
    Append(groups_, AddPackedLimit(one.limit));
    groups_ += char{0};
    groups_ += static_cast<char>(one.shadow ? kShadowFlag : 0);
    AppendDouble(groups_, -one.charge.cost);
    Append(groups_, Checksum64(one.key));
    AppendCharge(groups_, one.charge);
  }
  return Added::kYes;
}

std::string_view ScriptCall::command() {
  if (!command_.empty()) return command_;
  char not_after[sizeof(double)];
  PutDouble(not_after, not_after_.us);
  command_.reserve(keys_.size() + limits_.size() + groups_.size() + readable_.size() + 160);
  AppendNumber(command_, '*', 3 + key_places_.size() + (marker_ != 0 ? 5 : readable_.empty() ? 3 : 4));
  AppendBulk(command_, "EVALSHA");
  AppendBulk(command_, script().sha1);
  AppendBulk(command_, std::to_string(key_places_.size()));
  command_ += keys_;
  AppendBulk(command_, {not_after, sizeof not_after});
  not_after_at_ = command_.size() - sizeof not_after - 2;
  AppendBulk(command_, limits_);
  AppendBulk(command_, groups_);
  if (!readable_.empty() || marker_ != 0) AppendBulk(command_, readable_);
  if (marker_ != 0) {
    std::string guard;
    Append(guard, marker_);
    AppendDouble(guard, max_lag_.count);
    AppendBulk(command_, guard);
    max_lag_at_ = command_.size() - sizeof(double) - 2;
  }
  return command_;
}

void ScriptCall::SetNotAfter(EngineTime not_after) {
  not_after_ = not_after;
  if (!command_.empty()) PutDouble(&command_[not_after_at_], not_after.us);
}

void ScriptCall::SetMaxLag(Micros max_lag) {
  max_lag_ = max_lag;
  if (!command_.empty() && marker_ != 0) PutDouble(&command_[max_lag_at_], max_lag.count);
}

}  // namespace penstock::engine::redis
