#include "service/decider_impl.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "service/names.h"
#include "service/request_check.h"

namespace penstock::service {
namespace {

constexpr uint64_t MakeToken(uint32_t context, size_t pending) { return uint64_t{context} << 32 | pending; }

// What the request pays in the limit's unit; none: the limit does not apply to it.
struct Payment {
  int64_t cost = 0;
  uint8_t unit = 0;
};

constexpr uint8_t kPermitUnit = kMaxUnitsPerRequest;

std::optional<Payment> PaymentFor(const core::Limit& limit, const Request& request) {
  const CheckOptions& options = request.options;
  if (request.look || request.mode == engine::Mode::kReset) return Payment{};
  if (limit.params.algorithm == core::Algorithm::kPermits) [[unlikely]] {
    if (request.mode == engine::Mode::kSettle) return std::nullopt;
    const bool any = options.costs.empty() ? options.cost > 0
                                           : std::any_of(options.costs.begin(), options.costs.end(),
                                                         [](const UnitCost& cost) { return cost.cost > 0; });
    return Payment{any ? options.weight : 0, kPermitUnit};
  }
  if (options.costs.empty()) {
    if (limit.unit != kRequestsUnit) return std::nullopt;
    return Payment{options.cost, 0};
  }
  for (size_t i = 0; i < options.costs.size(); ++i) {
    if (options.costs[i].unit == limit.unit) return Payment{options.costs[i].cost, static_cast<uint8_t>(i)};
  }
  return std::nullopt;
}

// Places the parts of one copied request one after the other.
class Packer {
 public:
  explicit Packer(std::byte* room) : at_(room) {}

  template <class T>
  std::span<T> Array(std::span<const T> from) {
    T* to = reinterpret_cast<T*>(at_);
    for (size_t i = 0; i < from.size(); ++i) new (&to[i]) T(from[i]);
    at_ += from.size_bytes();
    return {to, from.size()};
  }
  std::string_view Text(std::string_view from) {
    char* to = reinterpret_cast<char*>(at_);
    std::copy(from.begin(), from.end(), to);
    at_ += from.size();
    return {to, from.size()};
  }

 private:
  std::byte* at_;
};

size_t TextBytes(const Request& request) {
  const CheckOptions& options = request.options;
  size_t bytes = request.domain.size() + request.ad_hoc_key.size() + request.only_limit.size() +
                 options.request_id.size() + options.holder.size();
  for (const Attribute& attribute : request.attributes)
    bytes += attribute.name.size() + attribute.value.size();
  for (const UnitCost& cost : options.costs) bytes += cost.unit.size();
  return bytes;
}

}  // namespace

DeciderImpl::DeciderImpl(const engine::Engine& engine, engine::EngineSession& session, Executor& executor,
                         const Clock& clock, PolicyStore& store, LoopCounters& counters,
                         const DeciderOptions& options)
    : session_(session),
      executor_(executor),
      clock_(clock),
      store_(store),
      counters_(counters),
      options_(options),
      ad_hoc_(engine, session),
      self_(std::make_shared<DeciderImpl*>(this)) {
  store_.AddLoop(executor_, *this);
}

DeciderImpl::~DeciderImpl() {
  store_.RemoveLoop(*this);
  *self_ = nullptr;
}

void DeciderImpl::SetPolicy(PolicyPointer policy) {
  if (policy_ != nullptr && policy->generation < policy_->generation) return;
  policy_ = std::move(policy);
  for (Context* context : idle_) {  // the old one may go
    context->batch.policy.reset();
    context->policy = nullptr;
  }
}

void DeciderImpl::Submit(const Request& request, Receiver& receiver, uint64_t token) {
  if (request.mode == engine::Mode::kCheck && !request.look) counters_.totals.requests.Add(1);
  Context& context = Open();
  Pending& pending = context.pending.emplace_back(Pending{&receiver, token, &request, nullptr, 0});
  if (Result<void> checked = CheckRequest(request); !checked) [[unlikely]] {
    return AddError(context, std::move(checked).error());
  }
  if (!request.stable) pending.request = Keep(context, request);
  Add(context);
}

DeciderImpl::Context& DeciderImpl::Open() {
  if (filling_ != nullptr) {
    if (filling_->pending.size() < engine::Batch::kMaxGroups) [[likely]]
      return *filling_;
    filled_.push_back(std::exchange(filling_, nullptr));
  }
  filling_ = &Acquire();
  return *filling_;
}

DeciderImpl::Context& DeciderImpl::Acquire() {
  Context* context = nullptr;
  if (!idle_.empty()) [[likely]] {
    context = idle_.back();
    idle_.pop_back();
  } else {
    auto fresh = std::make_unique<Context>();
    context = fresh.get();
    if (free_numbers_.empty()) {
      context->number = static_cast<uint32_t>(contexts_.size());
      contexts_.push_back(std::move(fresh));
    } else {
      context->number = free_numbers_.back();
      free_numbers_.pop_back();
      contexts_[context->number] = std::move(fresh);
    }
  }
  context->overload = ++busy_ > kMaxBatches;
  if (context->policy != policy_.get()) {
    context->policy = policy_.get();
    context->batch.policy = policy_;
  }
  return *context;
}

void DeciderImpl::Release(Context& context) {
  --busy_;
  context.pending.clear();
  context.immediate.clear();
  context.estimate.reset();
  // Clear lets the policy go; the next batch most likely has the same.
  std::shared_ptr<const void> policy = std::move(context.batch.policy);
  context.batch.Clear();
  if (idle_.size() == kMaxIdleBatches) {
    free_numbers_.push_back(context.number);
    contexts_[context.number].reset();
    return;
  }
  if (context.policy == policy_.get()) {
    context.batch.policy = std::move(policy);
  } else {
    context.policy = nullptr;
  }
  idle_.push_back(&context);
}

const Request* DeciderImpl::Keep(Context& context, const Request& request) {
  static_assert(std::is_trivially_destructible_v<Request> && alignof(Request) <= alignof(std::string_view));
  static_assert(sizeof(Request) % alignof(Attribute) == 0 && alignof(Attribute) == alignof(UnitCost));
  std::byte* room = context.batch.Allocate(sizeof(Request) + request.attributes.size_bytes() +
                                           request.options.costs.size_bytes() + TextBytes(request));
  auto* copy = new (room) Request(request);
  Packer packer(room + sizeof(Request));
  const std::span<Attribute> attributes = packer.Array(request.attributes);
  const std::span<UnitCost> costs = packer.Array(request.options.costs);
  for (Attribute& attribute : attributes) {
    attribute = {packer.Text(attribute.name), packer.Text(attribute.value)};
  }
  for (UnitCost& cost : costs) cost.unit = packer.Text(cost.unit);
  copy->attributes = attributes;
  copy->options.costs = costs;
  copy->domain = packer.Text(request.domain);
  copy->ad_hoc_key = packer.Text(request.ad_hoc_key);
  copy->only_limit = packer.Text(request.only_limit);
  copy->options.request_id = packer.Text(request.options.request_id);
  copy->options.holder = packer.Text(request.options.holder);
  return copy;
}

void DeciderImpl::AddError(Context& context, Error error) {
  context.immediate.push_back({static_cast<uint32_t>(context.pending.size() - 1), std::move(error)});
}

void DeciderImpl::Add(Context& context) {
  Pending& pending = context.pending.back();
  const size_t groups = context.batch.groups().size();
  Result<void> added = pending.request->ad_hoc.has_value() ? AddAdHoc(context, pending)
                                                           : AddMatches(context, *pending.request);
  if (!added) [[unlikely]]
    return AddError(context, std::move(added).error());
  if (context.batch.groups().size() == groups) {  // no limit applies
    context.immediate.push_back({static_cast<uint32_t>(context.pending.size() - 1), std::nullopt});
  }
}

Result<void> DeciderImpl::AddAdHoc(Context& context, Pending& pending) {
  const Request& request = *pending.request;
  const uint64_t compiled = ad_hoc_.compiled();
  const Result<AdHocCache::Entry*> found = ad_hoc_.Find(*request.ad_hoc);
  if (!found) return tl::unexpected<Error>(found.error());
  if (ad_hoc_.compiled() != compiled) counters_.totals.ad_hoc_compiled.Add(1);
  AdHocCache::Entry& entry = **found;
  const std::optional<Payment> payment = PaymentFor(entry.limit, request);
  if (!payment) return {};
  ad_hoc_.Use(entry);
  pending.ad_hoc = &entry;
  AddGroup(context, request, entry.limit.domain);
  AddOperation(context, entry.limit, std::span(&request.ad_hoc_key, 1), payment->cost, payment->unit);
  return {};
}

Result<const policy::Domain*> DeciderImpl::FindDomain(const PublishedPolicy& policy, std::string_view name) {
  if (domain_ != nullptr && domain_generation_ == policy.generation && domain_name_ == name) [[likely]] {
    return domain_;
  }
  const policy::Domain* domain = policy.policy == nullptr ? nullptr : policy.policy->FindDomain(name);
  if (domain == nullptr) {
    return Fail(ErrorKind::kNotFound, policy.policy == nullptr
                                          ? "unknown domain " + policy::Quoted(name) + ": no policy is loaded"
                                          : "unknown domain " + policy::Quoted(name));
  }
  domain_ = domain;
  domain_name_ = name;
  domain_generation_ = policy.generation;
  return domain;
}

Result<void> DeciderImpl::AddMatches(Context& context, const Request& request) {
  const PublishedPolicy& policy = *context.policy;
  const Result<const policy::Domain*> domain = FindDomain(policy, request.domain);
  if (!domain) return tl::unexpected<Error>(domain.error());
  if (Result<void> matched = policy.policy->Match(**domain, request.attributes, scratch_); !matched) {
    return matched;
  }
  const std::span<std::string_view> parts(scratch_.parts);
  if (!scratch_.text.empty()) {  // normalised addresses stand in room that the next match uses again
    const std::string_view text = scratch_.text;
    for (std::string_view& part : parts) {
      if (std::less_equal<>()(text.data(), part.data()) &&
          std::less<>()(part.data(), text.data() + text.size())) {
        part = context.batch.Copy(part);
      }
    }
  }
  bool found = false;
  for (const policy::Match& match : scratch_.matches) {
    const core::Limit& limit = *match.limit;
    if (!request.only_limit.empty() && limit.name != request.only_limit) continue;
    const std::optional<Payment> payment = PaymentFor(limit, request);
    if (!payment) continue;
    if (!found) AddGroup(context, request, limit.domain);
    found = true;
    AddOperation(context, limit, parts.subspan(match.first_part, match.part_count), payment->cost,
                 payment->unit);
  }
  if (!found && !request.only_limit.empty()) {
    return Fail(ErrorKind::kNotFound, "no limit " + policy::Quoted(request.only_limit) + " of domain " +
                                          policy::Quoted(request.domain) + " applies to these attributes");
  }
  return {};
}

void DeciderImpl::AddGroup(Context& context, const Request& request, std::string_view domain) {
  const CheckOptions& options = request.options;
  engine::Group& group = context.batch.AddGroup();
  group.mode = request.mode;
  group.options.max_wait = Millis(options.max_wait.count());
  group.options.force = options.force;
  group.options.partial = options.partial;
  group.domain = domain;
  group.token = MakeToken(context.number, context.pending.size() - 1);
  if (options.request_id.empty() || request.look || request.mode == engine::Mode::kReset) [[likely]]
    return;
  group.request_id = options.request_id;
  if (request.mode == engine::Mode::kCheck) group.fingerprint = Fingerprint(request, fingerprint_scratch_);
  if (options.settle_within.count() > 0) group.keep_id = Millis(options.settle_within.count());
}

void DeciderImpl::AddOperation(Context& context, const core::Limit& limit,
                               std::span<const std::string_view> key, int64_t cost, uint8_t unit) {
  core::Operation& operation = context.batch.AddOperationInPlace(limit, key);
  operation.cost = cost;
  operation.unit = unit;
  if (core::IsCalendar(limit.params.window)) [[unlikely]]
    operation.boundaries = Boundaries(context, limit);
}

// Null when the time-zone library does not know them: the engine then calls the group stale.
const core::WindowBoundaries* DeciderImpl::Boundaries(Context& context, const core::Limit& limit) {
  if (!context.estimate) context.estimate = session_.EstimateNow();
  const Result<const core::WindowBoundaries*> found = calendar_.Find(limit, *context.estimate);
  if (!found) return nullptr;
  return new (context.batch.Allocate(sizeof(core::WindowBoundaries))) core::WindowBoundaries(**found);
}

void DeciderImpl::Flush() {
  if (deciding_) {
    flush_wanted_ = true;
    return;
  }
  deciding_ = true;
  // Ends when the receivers stop asking again.
  while (!filled_.empty() || filling_ != nullptr) {
    Context* context = nullptr;
    if (filled_.empty()) [[likely]] {
      context = std::exchange(filling_, nullptr);
    } else {
      context = filled_.front();
      filled_.erase(filled_.begin());
    }
    Decide(*context);
  }
  deciding_ = false;
  flush_wanted_ = false;
}

void DeciderImpl::Decide(Context& context) {
  const std::span<engine::Group> groups = context.batch.groups();
  context.open = static_cast<uint32_t>(groups.size()) + 1;  // the one: until we are done here
  if (context.overload) [[unlikely]] {
    for (engine::Group& group : groups) {
      group.result.state = engine::GroupState::kUnavailable;
      group.result.reason = Reason::kOverload;
      Decided(context.batch, group);
    }
  } else if (!groups.empty()) {
    const SteadyTime deadline = options_.timeout ? clock_.Steady() + *options_.timeout
                                                 : SteadyTime{std::numeric_limits<int64_t>::max()};
    session_.Decide(context.batch, deadline, *this);
  }
  if (!context.immediate.empty()) AnswerImmediates(context);
  if (--context.open == 0) Release(context);
}

void DeciderImpl::AnswerImmediates(Context& context) {
  for (Immediate& immediate : context.immediate) {
    const Pending& pending = context.pending[immediate.pending];
    if (pending.receiver == nullptr) continue;
    if (immediate.error) {
      counters_.totals.invalid.Add(1);
      pending.receiver->Decided(pending.token, tl::unexpected<Error>(std::move(*immediate.error)));
      continue;
    }
    counters_.totals.unmatched.Add(1);
    Decision& decision = pending.request->into != nullptr ? *pending.request->into : decision_;
    SetUnlimited(decision);
    pending.receiver->Decided(pending.token, &decision);
  }
}

void DeciderImpl::Decided(engine::Batch& batch, engine::Group& group) noexcept {
  const bool outside = !std::exchange(deciding_, true);  // an engine that answers later
  Context& context = *contexts_[group.token >> 32];
  const Pending pending = context.pending[static_cast<uint32_t>(group.token)];
  const engine::GroupState state = group.result.state;
  const bool stale = state == engine::GroupState::kStale || state == engine::GroupState::kStaleClock;
  if (stale && Repeat(context, pending, group)) [[unlikely]] {
    flush_wanted_ = true;
  } else if (pending.receiver != nullptr) {
    AnswerGroup(pending, batch, group);
  }
  if (pending.ad_hoc != nullptr) ad_hoc_.Unuse(*pending.ad_hoc);
  if (--context.open == 0) Release(context);
  if (!outside) return;
  deciding_ = false;
  // Not from here: the engine may be in the middle of its own work.
  if (std::exchange(flush_wanted_, false)) {
    executor_.Post([self = self_] {
      if (*self != nullptr) (*self)->Flush();
    });
  }
}

bool DeciderImpl::Repeat(const Context& context, const Pending& pending, const engine::Group& group) {
  if (pending.repeats == kMaxRepeats) return false;
  if (group.result.state == engine::GroupState::kStale) {
    PolicyPointer newest = store_.Newest();
    if (newest->generation > policy_->generation) SetPolicy(std::move(newest));
    if (context.policy != nullptr && context.policy->generation >= policy_->generation) return false;
  }
  counters_.totals.repeats.Add(1);
  if (filling_ != nullptr && filling_->policy != policy_.get()) {
    filled_.push_back(std::exchange(filling_, nullptr));
  }
  Context& again = Open();
  Pending& next = again.pending.emplace_back(pending);
  next.ad_hoc = nullptr;
  ++next.repeats;
  if (!next.request->stable) next.request = Keep(again, *next.request);
  if (group.result.state == engine::GroupState::kStaleClock) again.estimate = group.result.now;
  Add(again);
  return true;
}

void DeciderImpl::AnswerGroup(const Pending& pending, engine::Batch& batch, engine::Group& group) {
  const auto fail = [&pending](ErrorKind kind, std::string_view what) {
    pending.receiver->Decided(
        pending.token, Fail(kind, std::string(what) + policy::Quoted(pending.request->options.request_id)));
  };
  switch (group.result.state) {
    case engine::GroupState::kConflict:
      counters_.totals.conflicts.Add(1);
      return fail(ErrorKind::kConflict, "request_id: another request was made as ");
    case engine::GroupState::kUnknownId:
      return fail(ErrorKind::kNotFound, "request_id: nothing is kept under ");
    case engine::GroupState::kStale:
    case engine::GroupState::kStaleClock:
      group.result.state = engine::GroupState::kUnavailable;
      group.result.reason = Reason::kStale;
      break;
    case engine::GroupState::kDecided:
    case engine::GroupState::kUnavailable:
      break;
  }
  const Request& request = *pending.request;
  ComposeInput input;
  input.operations = batch.operations(group);
  input.result = &group.result;
  if (pending.ad_hoc != nullptr) {
    input.infos = std::span(&pending.ad_hoc->info, 1);
  } else {
    input.infos = static_cast<const PublishedPolicy*>(batch.policy.get())->limits;
  }
  input.on_full = options_.on_full;
  input.partial = request.options.partial;
  Decision& decision = request.into != nullptr ? *request.into : decision_;
  Compose(input, decision);
  if (request.mode == engine::Mode::kCheck && !request.look) Count(input, decision);
  pending.receiver->Decided(pending.token, &decision);
}

void DeciderImpl::Count(const ComposeInput& input, const Decision& decision) {
  if (decision.replayed) [[unlikely]]
    return counters_.totals.replayed.Add(1);
  if (!decision.replayable) [[unlikely]]
    counters_.totals.not_replayable.Add(1);
  size_t index = 0;
  for (const core::Operation& operation : input.operations) {
    if (operation.skipped) continue;
    const LimitDecision& part = decision.limits[index++];
    if (operation.cost == 0) continue;  // a peek decides nothing
    LimitCounters& counters = counters_.At(input.infos[operation.limit->number].slot);
    const auto outcome = static_cast<size_t>(part.outcome);
    if (part.shadow) {
      counters.shadow[outcome].Add(1);
    } else {
      (part.degraded ? counters.degraded : counters.outcomes)[outcome].Add(1);
    }
    if (part.saturated) [[unlikely]]
      counters.saturated.Add(1);
  }
}

void DeciderImpl::Detach(const Receiver& receiver) {
  for (const std::unique_ptr<Context>& context : contexts_) {
    if (context == nullptr) continue;
    for (Pending& pending : context->pending) {
      if (pending.receiver == &receiver) pending.receiver = nullptr;
    }
  }
}

}  // namespace penstock::service
