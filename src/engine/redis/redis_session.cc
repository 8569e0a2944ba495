#include "engine/redis/redis_session.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/log.h"
#include "engine/redis/binding.h"
#include "engine/redis/count.h"
#include "engine/redis/keys.h"
#include "penstock/request.h"

namespace penstock::engine::redis {
namespace {

void ClearVerdicts(std::span<core::Operation> operations) {
  for (core::Operation& operation : operations) {
    operation.verdict = {};
    operation.edit = {};
    operation.charge = {};
    operation.skipped = false;
  }
}

}  // namespace

RedisSession::RedisSession(RedisEngine& engine, const LoopParts& parts)
    : engine_(engine),
      dialer_(parts.dialer),
      executor_(parts.executor),
      timer_(parts.timer),
      flush_(parts.executor, [this] { Flush(); }),
      undo_(*this, parts.timer, engine.clock(), engine.counters()),
      permits_({parts.executor, engine.clock(),
                engine.scripts()[static_cast<size_t>(ScriptKind::kPermitCalls)], engine.options().prefix,
                engine.counters()}),
      watch_({parts.executor, parts.timer, engine.clock(), engine.hints(), permits_}),
      heart_(engine.fleet(), parts.timer, engine.clock(), engine.options().prefix,
             engine.scripts()[static_cast<size_t>(ScriptKind::kFleet)]),
      hint_line_(engine.hints(), {*parts.dialer, parts.timer, engine.clock()}, engine.options()),
      topology_(OpenTopology(
          {*parts.dialer, parts.executor, parts.timer, engine.clock(), engine.scripts(), &engine.book()},
          engine.options(), &engine.topology_counters())) {
  registry_ = std::make_unique<RedisRegistry>(RegistryParts{
      *topology_, timer_, engine.clock(), engine.scripts()[static_cast<size_t>(ScriptKind::kRegistry)],
      engine.options().prefix, &engine.hints(), &executor_});
  heart_.Start(*topology_);
  permits_.Start(*topology_);
  hint_line_.Start(*topology_);
  Beat();
}

RedisSession::~RedisSession() {
  Close();
  if (counted_usable_) engine_.usable_links().fetch_sub(1, std::memory_order_relaxed);
}

void RedisSession::Close() noexcept {
  if (std::exchange(closed_, true)) return;
  timer_.Cancel(beat_);
  registry_->Close();
  heart_.Stop();
  hint_line_.Stop();
  RefuseQueued();
  watch_.Stop();
  permits_.Stop();
  replica_topology_.reset();
  topology_.reset();  // what is in flight is done, its fate unknown
  RefuseQueued();     // a request over several slots may have gone on to its next one
}

void RedisSession::RefuseQueued() {
  while (!queue_.empty()) {
    for (const Ticket& ticket : std::exchange(queue_, {})) Refuse(ticket, Reason::kShuttingDown);
  }
}

void RedisSession::Beat() {
  bool usable = false;
  topology_->ForEachLink([&](ServerLink& link) {
    usable |= link.usable();
    if (!clock_known_ && link.clock().known()) {
      const SteadyTime now = engine_.clock().Steady();
      clock_offset_us_ = link.clock().Estimate(now).us - now.us;
      clock_known_ = true;
    }
  });
  if (usable != counted_usable_) engine_.usable_links().fetch_add(usable ? 1 : -1, std::memory_order_relaxed);
  counted_usable_ = usable;
  TellTrouble();
  beat_ = timer_.Schedule(engine_.clock().Steady() + kBeat, [this] { Beat(); });
}

EngineTime RedisSession::EstimateNow() const {
  if (!clock_known_) return engine_.clock().Now();
  return {engine_.clock().Steady().us + clock_offset_us_};
}

void RedisSession::Decide(Batch& batch, SteadyTime deadline, Sink& sink) noexcept {
  for (Group& group : batch.groups()) {
    if (closed_) {  // no later turn may come
      Refuse({.batch = &batch, .group = &group, .sink = &sink, .deadline = deadline}, Reason::kShuttingDown);
    } else if (!topology_->has_slots() || group.count == 0) {
      Ask(batch, group, Exchange::kNoSlot, deadline, sink);
    } else if (FindSlots(batch.operations(group))) {
      Ask(batch, group, slots_[0], deadline, sink);
    } else {
      StartSpread(batch, group, deadline, sink);
    }
  }
}

void RedisSession::CallPermits(std::span<PermitCall> calls, SteadyTime deadline, PermitSink& sink) noexcept {
  for (const PermitCall& call : calls) {
    if (call.verb == PermitVerb::kLeave) watch_.Left(call.permit.id);
  }
  permits_.Call(calls, deadline, sink);
}

void RedisSession::LeaveQueue(const Hash128& permit, const Hash128& bucket) noexcept {
  watch_.Leave(permit, bucket);
}

void RedisSession::NoteQueue(const Ticket& ticket) {
  const Group& group = *ticket.group;
  if (group.options.permit == nullptr) [[likely]]
    return;
  if (group.options.dry || group.mode != Mode::kCheck) return;
  if (!group.result.queued) return watch_.Left(group.options.permit->id);
  for (const core::Operation& operation : ticket.batch->operations(group)) {
    if (operation.verdict.queued) watch_.Waits(group.options.permit->id, operation.name);
  }
}

void RedisSession::NamePermits(std::span<core::Operation> operations) {
  std::string readable;
  for (core::Operation& operation : operations) {
    const BucketKeys& keys = BindingOf(*operation.limit).keys;
    if (!keys.permits()) continue;
    readable.clear();
    operation.name = keys.AppendReadable(readable, operation.key);
    operation.named = true;
  }
}

bool RedisSession::FindSlots(std::span<const core::Operation> operations) {
  slots_.clear();
  for (const core::Operation& operation : operations) {
    key_bytes_.clear();
    slots_.push_back(BindingOf(*operation.limit).keys.Append(key_bytes_, operation.key));
  }
  return std::all_of(slots_.begin(), slots_.end(), [&](int32_t slot) { return slot == slots_[0]; });
}

void RedisSession::StartSpread(Batch& batch, Group& group, SteadyTime deadline, Sink& sink) {
  Count(engine_.counters().spread);
  const auto finished = [this](SpreadGroup& spread) {
    const size_t place = spread.place;
    spread_.back()->place = place;
    std::swap(spread_[place], spread_.back());
    spread_.pop_back();
  };
  NamePermits(batch.operations(group));
  Asker& asker = *this;
  spread_.push_back(std::make_unique<SpreadGroup>(
      asker, undo_, engine_.options().prefix, SpreadRequest{batch, group, sink, deadline}, slots_, finished));
  spread_.back()->place = spread_.size() - 1;
  spread_.back()->Start();
}

void RedisSession::Ask(Batch& batch, Group& group, int32_t slot, SteadyTime deadline, Sink& sink) noexcept {
  Enqueue({.batch = &batch,
           .group = &group,
           .sink = &sink,
           .deadline = deadline,
           .slot = slot,
           .replicas = ReplicasOf(group, batch.operations(group))});
}

void RedisSession::AskUndo(uint64_t number, int32_t slot, SteadyTime deadline) noexcept {
  Enqueue({.deadline = deadline, .slot = slot, .undo = number});
}

// Never answered from here: what is refused hears of it at the end of the turn, or in Close.
void RedisSession::Enqueue(const Ticket& ticket) {
  queue_.push_back(ticket);
  flush_.Post();
}

void RedisSession::Refuse(const Ticket& ticket, Reason reason, bool may_have_run) {
  if (ticket.undo != 0) {
    return undo_.Answered(ticket.undo, may_have_run ? UndoFate::kMayHaveRun : UndoFate::kNotRun);
  }
  ticket.group->result = {.state = GroupState::kUnavailable, .reason = reason, .may_have_run = may_have_run};
  ClearVerdicts(ticket.batch->operations(*ticket.group));
  NamePermits(ticket.batch->operations(*ticket.group));
  ticket.sink->Decided(*ticket.batch, *ticket.group);
}

void RedisSession::Flush() {
  flushing_.swap(queue_);
  if (!closed_ && topology_->has_slots()) {  // a call is for one slot: those of one come together
    std::stable_sort(flushing_.begin(), flushing_.end(),
                     [](const Ticket& a, const Ticket& b) { return a.slot < b.slot; });
  }
  // What goes by other connections comes together, too.
  const auto replicated = [](const Ticket& ticket) { return ticket.replicas > 0; };
  if (std::any_of(flushing_.begin(), flushing_.end(), replicated)) {
    std::stable_partition(flushing_.begin(), flushing_.end(), replicated);
  }
  const SteadyTime now = engine_.clock().Steady();
  for (size_t i = 0; i < flushing_.size(); ++i) {
    if (closed_) {
      Refuse(flushing_[i], Reason::kShuttingDown);
    } else if (i >= kMaxQueued) {
      Refuse(flushing_[i], Reason::kOverload);
    } else if (flushing_[i].deadline <= now) {
      Refuse(flushing_[i], Reason::kTimeout);  // and does not take those with it that share its call
    } else {
      Place(flushing_[i]);
    }
  }
  flushing_.clear();
  SendOpen();
}

void RedisSession::SendOpen() {
  for (std::unique_ptr<PendingCall>& call : open_) Send(std::move(call));
  open_.clear();
}

void RedisSession::Place(const Ticket& ticket) {
  ServerLink* const link = TopologyOf(ticket).LinkFor(ticket.slot);
  if (link == nullptr) return Refuse(ticket, Reason::kEngineDown);
  if (!open_.empty() && (open_[0]->slot != ticket.slot || open_[0]->link != link)) SendOpen();
  NameKeys(ticket);
  if (ticket.redirects > 0) {
    std::unique_ptr<PendingCall> own = NewCall(*link, ticket);
    AddTo(*own, ticket);
    return Send(std::move(own));
  }
  for (std::unique_ptr<PendingCall>& call : open_) {
    switch (AddTo(*call, ticket)) {
      case ScriptCall::Added::kYes:
        return;
      case ScriptCall::Added::kOtherScript:
        continue;
      case ScriptCall::Added::kFull: {
        std::unique_ptr<PendingCall> full = std::exchange(call, NewCall(*link, ticket));
        AddTo(*call, ticket);   // always fits into an empty one
        Send(std::move(full));  // the last: who hears of it may name other keys
        return;
      }
    }
  }
  AddTo(*open_.emplace_back(NewCall(*link, ticket)), ticket);
}

std::unique_ptr<PendingCall> RedisSession::NewCall(ServerLink& link, const Ticket& first) {
  CallOwner& owner = *this;
  std::unique_ptr<PendingCall> call;
  if (idle_.empty()) {
    call = std::make_unique<PendingCall>(owner, engine_.scripts());
  } else {
    call = std::move(idle_.back());
    idle_.pop_back();
  }
  call->call.Clear();
  call->link = &link;
  call->slot = first.slot;
  call->redirects = first.redirects;
  call->expired = false;
  call->deadline = SteadyTime{std::numeric_limits<int64_t>::max()};
  return call;
}

void RedisSession::NameKeys(const Ticket& ticket) {
  if (ticket.undo != 0) return;
  const std::span<core::Operation> operations = ticket.batch->operations(*ticket.group);
  key_bytes_.clear();
  part_operations_.clear();
  part_keys_.clear();
  readable_bytes_.clear();
  part_readable_.clear();
  size_t ends[kMaxLimitsPerRequest + 1];
  size_t readable_ends[kMaxLimitsPerRequest + 1];
  bool permits = false, strict = false;
  for (size_t i = 0; i < operations.size(); ++i) {
    strict |= operations[i].limit->strict;
    const BucketKeys& keys = BindingOf(*operations[i].limit).keys;
    if (keys.permits()) {
      operations[i].name = keys.AppendReadable(readable_bytes_, operations[i].key);
      operations[i].named = permits = true;
      AppendPermitKey(key_bytes_, engine_.options().prefix, operations[i].name);
    } else {
      if (!operations[i].named)
        operations[i].name = {};  // not what the operation's place was used for before
      keys.AppendWithoutSlot(key_bytes_, operations[i].key);
    }
    readable_ends[i] = readable_bytes_.size();
    part_operations_.push_back(&operations[i]);
    ends[i] = key_bytes_.size();
  }
  if (!ticket.group->request_id.empty()) {
    AppendIdKey(key_bytes_, engine_.options().prefix, ticket.slot, ticket.group->domain,
                ticket.group->request_id);
  }
  const size_t id_end = key_bytes_.size();
  if (strict) AppendMarkerKey(key_bytes_, engine_.options().prefix, ticket.slot);
  size_t begin = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    part_keys_.push_back(std::string_view(key_bytes_).substr(begin, ends[i] - begin));
    begin = ends[i];
    if (!permits) continue;
    const size_t from = i == 0 ? 0 : readable_ends[i - 1];
    part_readable_.push_back(std::string_view(readable_bytes_).substr(from, readable_ends[i] - from));
  }
  part_ = {.batch = ticket.batch,
           .group = ticket.group,
           .operations = part_operations_,
           .keys = part_keys_,
           .id_key = std::string_view(key_bytes_).substr(begin, id_end - begin),
           .by_group = ticket.by_group,
           .readable = part_readable_,
           .marker = std::string_view(key_bytes_).substr(id_end),
           .session = permits_.session()};
}

ScriptCall::Added RedisSession::AddTo(PendingCall& call, const Ticket& ticket) {
  const ScriptCall::Added added =
      ticket.undo != 0 ? call.call.AddUndo(undo_.charges(ticket.undo), ticket.undo) : call.call.Add(part_);
  if (added == ScriptCall::Added::kYes) {
    call.tickets.push_back(ticket);
    call.deadline = std::min(call.deadline, ticket.deadline);
  }
  return added;
}

void RedisSession::Send(std::unique_ptr<PendingCall> call) {
  Count(engine_.counters().calls);
  Count(engine_.counters().decisions, call->tickets.size());
  const Reason refused = call->link->Send(*call);
  if (refused == Reason::kNone) {
    (void)call.release();  // the link's, until CallDone
    return;
  }
  for (const Ticket& ticket : call->tickets) Refuse(ticket, refused);
  Recycle(std::move(call));
}

// It did not run, since the slot is on the move and one of its keys is not where another is. Of most groups all keys
// are on one side: by themselves they need not wait.
void RedisSession::CallDivided(PendingCall& call) noexcept {
  for (Ticket& ticket : call.tickets) {
    ticket.redirects = call.redirects;
    Enqueue(ticket);
  }
  Recycle(std::unique_ptr<PendingCall>(&call));
}

void RedisSession::CallExpired(PendingCall& call) noexcept {
  call.expired = true;
  for (ScriptCall::Sent& sent : call.call.sent()) ScriptCall::Abandon(sent);
  for (const Ticket& ticket : call.tickets) Refuse(ticket, Reason::kTimeout, true);
}

void RedisSession::CallDone(PendingCall& call, const Reply& reply) noexcept {
  charged_.clear();
  const bool read = reply.fate == Fate::kReplied && call.call.Read(reply.nodes, charged_);
  if (read) {
    const EngineTime now = call.call.now();
    reply.link->clock().Note(now, reply.received);
    clock_offset_us_ = now.us - reply.received.us;
    clock_known_ = true;
    if (call.call.reclaimed() > 0)
      Count(engine_.counters().reclaimed, static_cast<uint64_t>(call.call.reclaimed()));
  }
  if (!call.expired) {
    if (read && !closed_) HoldForReplicas(call, reply);
    AnswerAll(call, read, reply);
  } else {
    Count(engine_.counters().late_replies);
    if (!closed_) UndoCharged(call.slot);
  }
  Recycle(std::unique_ptr<PendingCall>(&call));
}

// The charges of one request share its id; those without are taken back one by one.
void RedisSession::UndoCharged(int32_t slot) {
  for (size_t begin = 0, end = 0; begin < charged_.size(); begin = end) {
    end = begin + 1;
    const auto same = [&](const Undo& other) {
      return !other.id_key.empty() && other.id_key == charged_[begin].id_key;
    };
    while (end < charged_.size() && same(charged_[end])) ++end;
    undo_.Add({std::make_move_iterator(charged_.begin() + static_cast<std::ptrdiff_t>(begin)),
               std::make_move_iterator(charged_.begin() + static_cast<std::ptrdiff_t>(end))},
              slot);
  }
}

void RedisSession::AnswerAll(PendingCall& call, bool read, const Reply& reply) {
  for (size_t i = 0; i < call.tickets.size(); ++i) {
    const Ticket& ticket = call.tickets[i];
    if (ticket.group == nullptr && ticket.undo == 0) continue;  // held for replicas
    if (read) {
      AnswerOne(ticket, call.call.sent()[i]);
    } else if (reply.fate == Fate::kReplied) {
      // An error that the link leaves to us, or no answer of a script: who knows how far it came.
      Refuse(ticket, Reason::kEngineDown, true);
    } else {
      Refuse(ticket, reply.reason, reply.fate == Fate::kUnknown);
    }
  }
}

void RedisSession::AnswerOne(const Ticket& ticket, const ScriptCall::Sent& sent) {
  using Answer = ScriptCall::Answer;
  Counters& counters = engine_.counters();
  TellOdd(ticket, sent.answer == Answer::kNone ? Answer::kBroken : sent.answer);
  switch (sent.answer) {
    case Answer::kDecided:
      if (ticket.undo != 0) {
        return undo_.Answered(ticket.undo, sent.dropped > 0 ? UndoFate::kDropped : UndoFate::kDone);
      }
      NoteQueue(ticket);
      if (ticket.group->result.state == GroupState::kStale) Count(counters.stale);
      for (const core::Operation& operation : ticket.batch->operations(*ticket.group)) {
        if (operation.verdict.saturated) [[unlikely]]
          Count(counters.saturated);
      }
      return ticket.sink->Decided(*ticket.batch, *ticket.group);
    case Answer::kAskGroup: {
      Ticket again = ticket;
      again.by_group = true;
      return Enqueue(again);
    }
    case Answer::kLate:
      return Refuse(ticket, Reason::kTimeout);
    case Answer::kFull:
      Count(counters.full);
      return Refuse(ticket, Reason::kFull);
    case Answer::kForeign:
      Count(counters.foreign);
      return Refuse(ticket, Reason::kEngineDown);
    case Answer::kNewer:
      Count(counters.newer);
      return Refuse(ticket, Reason::kEngineDown);
    case Answer::kNoRun:
    case Answer::kNoReplicas:
    case Answer::kLag:
      return Refuse(ticket, Reason::kEngineDown);
    case Answer::kTooFewReplicas:
    case Answer::kNone:
    case Answer::kBroken:
      break;
  }
  Count(counters.broken);
  Refuse(ticket, Reason::kEngineDown, true);
}

void RedisSession::Recycle(std::unique_ptr<PendingCall> call) {
  if (idle_.size() == kMaxIdleCalls) return;
  call->tickets.clear();
  idle_.push_back(std::move(call));
}

Result<void> RedisSession::Bind(std::span<core::Limit* const> limits) {
  for (core::Limit* limit : limits) {
    limit->binding = std::make_unique<RedisBinding>(*limit, engine_.options().prefix);
  }
  return {};
}

bool RedisSession::BindAdHoc(core::Limit& limit) {
  limit.version = 0;
  limit.binding = std::make_unique<RedisBinding>(limit, engine_.options().prefix);
  return true;
}

}  // namespace penstock::engine::redis
