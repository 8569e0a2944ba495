#include "service/decider_impl.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "service/names.h"
#include "service/request_check.h"
#include "service/same_text.h"

namespace penstock::service {
namespace {

constexpr uint64_t MakeToken(uint32_t context, size_t pending) { return uint64_t{context} << 32 | pending; }

// What the request pays in the limit's unit; none: the limit does not apply to it.
struct Payment {
  int64_t cost = 0;
  uint8_t unit = 0;
};

constexpr uint8_t kPermitUnit = kMaxUnitsPerRequest;

// The weight, once any cost is positive. A settle, a refund and whoever would not give back have nothing to do with
// permits, and what is forced only looks at them (rule E7).
std::optional<Payment> PermitPaymentFor(const core::Limit& limit, const Request& request) {
  const CheckOptions& options = request.options;
  if (request.without_permits || request.mode == engine::Mode::kSettle) return std::nullopt;
  const Payment peek{0, kPermitUnit};
  if (request.look || request.mode != engine::Mode::kCheck) return peek;
  if (options.force) {  // not even a limit of none refuses
    return limit.params.kind == core::RateKind::kZero ? std::nullopt : std::optional(peek);
  }
  bool positive = options.costs.empty() && options.cost > 0;
  bool negative = options.costs.empty() && options.cost < 0;
  for (const UnitCost& cost : options.costs) {
    positive |= cost.cost > 0;
    negative |= cost.cost < 0;
  }
  if (positive) return Payment{options.weight, kPermitUnit};
  return negative ? std::nullopt : std::optional(peek);
}

inline std::optional<Payment> PaymentFor(const core::Limit& limit, const Request& request) {
  const CheckOptions& options = request.options;
  if (core::IsPermits(limit)) [[unlikely]]
    return PermitPaymentFor(limit, request);
  if (request.look || request.mode == engine::Mode::kReset) return Payment{};
  if (options.costs.empty()) {
    if (!SameText(limit.unit, kRequestsUnit)) return std::nullopt;
    return Payment{options.cost, 0};
  }
  for (size_t i = 0; i < options.costs.size(); ++i) {
    if (SameText(options.costs[i].unit, limit.unit))
      return Payment{options.costs[i].cost, static_cast<uint8_t>(i)};
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
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    at_ += from.size();
    return {to, from.size()};
  }

 private:
  std::byte* at_;
};

size_t TextBytes(const Request& request) {
  const CheckOptions& options = request.options;
  size_t bytes = options.request_id.size() + options.holder.size() +
                 (request.ad_hoc.has_value() ? request.ad_hoc_key.size()
                                             : request.domain.size() + request.only_limit.size());
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
      permits_(session, executor, clock, options.timer, options.timeout, counters),
      holders_(*this),
      notes_(options.watch),
      flush_later_(executor, [this] { Flush(); }) {
  if (options_.timer != nullptr) session_.SetWaker(this);
  store_.AddLoop(executor_, *this);
}

DeciderImpl::~DeciderImpl() {
  for (const Context* context : waiting_) options_.timer->Cancel(context->timer);
  while (waiting_room_.size() > 0) EndWait(waiting_room_.all().front());
  if (options_.timer != nullptr) session_.SetWaker(nullptr);
  store_.RemoveLoop(*this);
}

void DeciderImpl::SetPolicy(PolicyPointer policy) {
  if (policy_ != nullptr && policy->generation < policy_->generation) return;
  policy_ = std::move(policy);
  session_.PolicyChanged(policy_);
  const auto forget = [](Context& context) {  // the old one may go
    context.batch.policy.reset();
    context.policy = nullptr;
  };
  if (spare_ != nullptr) forget(*spare_);
  for (Context* context : idle_) forget(*context);
  if (!waiting_.empty()) ResumeAll(Reason::kNone);
  if (waiting_room_.size() > 0) AskAllAgain();
}

void DeciderImpl::Submit(const Request& request, Receiver& receiver, uint64_t token) {
  Submit(request, {}, receiver, token);
}

void DeciderImpl::SubmitListing(const Request& request, HolderListing& listing, Receiver& receiver,
                                uint64_t token) {
  Submit(request, {.listing = &listing}, receiver, token);
}

void DeciderImpl::Submit(const Request& request, const Asked& asked, Receiver& receiver, uint64_t token) {
  const bool counted = request.mode == engine::Mode::kCheck && !request.look;
  if (counted) counters_.totals.requests.Add(1);
  Context& context = Open();
  Pending& pending =
      context.pending.emplace_back(Pending{&receiver, token, &request, request.into, asked, 0, counted});
  const bool plain = IsPlain(request);
  if (!plain) [[unlikely]] {
    if (Result<void> checked = CheckRequest(request); !checked) {
      return AddImmediate(context, std::move(checked).error());
    }
  }
  if (request.stable) return Add(context, request, false);
  // An ad hoc limit has no newer version and, but for calendars, no edges: it is never repeated.
  if (plain && request.ad_hoc.has_value() && !core::IsCalendar(request.ad_hoc->window)) {
    pending.request = nullptr;
    return Add(context, request, true);
  }
  pending.request = Keep(context, request);
  Add(context, *pending.request, false);
}

DeciderImpl::Context& DeciderImpl::Open() {
  if (filling_ != nullptr) {
    if (filling_->pending.size() < engine::Batch::kMaxGroups) [[likely]]
      return *filling_;
    filled_.push_back(filling_);
  }
  filling_ = &Acquire();
  return *filling_;
}

DeciderImpl::Context& DeciderImpl::Acquire() {
  Context& context = spare_ != nullptr ? *std::exchange(spare_, nullptr) : AcquireIdle();
  context.refusal = ++busy_ > kMaxBatches ? Reason::kOverload : Reason::kNone;
  context.deadline.reset();
  if (context.policy != policy_.get()) [[unlikely]] {
    context.policy = policy_.get();
    context.batch.policy = policy_;
  }
  return context;
}

DeciderImpl::Context& DeciderImpl::AcquireIdle() {
  if (!idle_.empty()) {
    Context* const context = idle_.back();
    idle_.pop_back();
    return *context;
  }
  auto fresh = std::make_unique<Context>();
  Context& context = *fresh;
  if (free_numbers_.empty()) {
    context.number = static_cast<uint32_t>(contexts_.size());
    contexts_.push_back(std::move(fresh));
  } else {
    context.number = free_numbers_.back();
    free_numbers_.pop_back();
    contexts_[context.number] = std::move(fresh);
  }
  return context;
}

void DeciderImpl::Release(Context& context) {
  --busy_;
  context.pending.clear();
  if (!context.immediate.empty()) context.immediate.clear();
  context.estimate.reset();
  // Clear lets the policy go; the next batch most likely has the same.
  std::shared_ptr<const void> policy = std::move(context.batch.policy);
  context.batch.Clear();
  if (context.policy == policy_.get()) [[likely]] {
    context.batch.policy = std::move(policy);
  } else {
    context.policy = nullptr;
  }
  if (spare_ == nullptr) [[likely]] {
    spare_ = &context;
  } else if (idle_.size() < kMaxIdleBatches) {
    idle_.push_back(&context);
  } else {
    free_numbers_.push_back(context.number);
    contexts_[context.number].reset();
  }
}

const Request* DeciderImpl::Keep(Context& context, const Request& request) {
  return CopyTo(context.batch.Allocate(KeptBytes(request)), request);
}

size_t DeciderImpl::KeptBytes(const Request& request) {
  return sizeof(Request) + request.attributes.size_bytes() + request.options.costs.size_bytes() +
         TextBytes(request);
}

Request* DeciderImpl::CopyTo(std::byte* room, const Request& request) {
  static_assert(std::is_trivially_destructible_v<Request> && alignof(Request) <= alignof(std::string_view));
  static_assert(sizeof(Request) % alignof(Attribute) == 0 && alignof(Attribute) == alignof(UnitCost));
  const CheckOptions& options = request.options;
  auto* const copy = new (room) Request(request);
  Packer packer(room + sizeof(Request));
  const std::span<Attribute> attributes = packer.Array(request.attributes);
  const std::span<UnitCost> costs = packer.Array(options.costs);
  for (Attribute& attribute : attributes) {
    attribute = {packer.Text(attribute.name), packer.Text(attribute.value)};
  }
  for (UnitCost& cost : costs) cost.unit = packer.Text(cost.unit);
  copy->attributes = attributes;
  copy->options.costs = costs;
  if (request.ad_hoc.has_value()) {
    copy->ad_hoc_key = packer.Text(request.ad_hoc_key);
  } else {
    copy->domain = packer.Text(request.domain);
    if (!request.only_limit.empty()) copy->only_limit = packer.Text(request.only_limit);
  }
  if (!options.request_id.empty()) copy->options.request_id = packer.Text(options.request_id);
  if (!options.holder.empty()) copy->options.holder = packer.Text(options.holder);
  return copy;
}

void DeciderImpl::AddImmediate(Context& context, std::optional<Error> error) {
  context.immediate.push_back({static_cast<uint32_t>(context.pending.size() - 1), std::move(error)});
}

DeciderImpl::Added DeciderImpl::Wrong(ErrorKind kind, std::string message) {
  error_ = {kind, std::move(message)};
  return Added::kWrong;
}

void DeciderImpl::Add(Context& context, const Request& request, bool copy_key) {
  Pending& pending = context.pending.back();
  const Added added = AddRequest(context, request, copy_key, pending.asked);
  if (added == Added::kGroup) [[likely]] {
    if (pending.asked.ad_hoc != nullptr) ad_hoc_.Use(*pending.asked.ad_hoc);
    context.batch.groups().back().token = MakeToken(context.number, context.pending.size() - 1);
  } else if (added == Added::kNothing) {
    AddImmediate(context, std::nullopt);
  } else {
    AddImmediate(context, std::move(error_));
  }
}

DeciderImpl::Added DeciderImpl::AddRequest(Context& context, const Request& request, bool copy_key,
                                           Asked& asked) {
  return request.ad_hoc.has_value() ? AddAdHoc(context, request, copy_key, asked)
                                    : AddMatches(context, request, asked);
}

DeciderImpl::Added DeciderImpl::AddAdHoc(Context& context, const Request& request, bool copy_key,
                                         Asked& asked) {
  AdHocCache::Entry* entry = ad_hoc_.Newest(*request.ad_hoc);
  if (entry == nullptr) [[unlikely]] {
    const uint64_t compiled = ad_hoc_.compiled();
    const Result<AdHocCache::Entry*> found = ad_hoc_.Find(*request.ad_hoc);
    if (!found) return Wrong(found.error().kind, found.error().message);
    counters_.totals.ad_hoc_compiled.Add(ad_hoc_.compiled() - compiled);
    entry = *found;
  }
  const std::optional<Payment> payment = PaymentFor(entry->limit, request);
  if (!payment) return Unmatched(request);
  asked.ad_hoc = entry;
  AddGroup(context, request, entry->limit.domain, asked);
  const std::string_view key = copy_key ? context.batch.Copy(request.ad_hoc_key) : request.ad_hoc_key;
  AddOperation(context, entry->limit, std::span(&key, 1), payment->cost, payment->unit);
  if (payment->unit == kPermitUnit && payment->cost > 0) [[unlikely]]
    BringPermit(context, request, asked);
  return Added::kGroup;
}

const policy::Domain* DeciderImpl::FindDomain(const PublishedPolicy& policy, std::string_view name) {
  if (domain_ != nullptr && domain_generation_ == policy.generation && SameText(domain_name_, name))
      [[likely]] {
    return domain_;
  }
  return LookUpDomain(policy, name);
}

const policy::Domain* DeciderImpl::LookUpDomain(const PublishedPolicy& policy, std::string_view name) {
  if (policy.policy == nullptr) {
    Wrong(ErrorKind::kNotFound, "unknown domain " + policy::Quoted(name) + ": no policy is loaded");
    return nullptr;
  }
  const policy::Domain* const domain = policy.policy->FindDomain(name);
  if (domain == nullptr) {
    Wrong(ErrorKind::kNotFound, "unknown domain " + policy::Quoted(name));
    return nullptr;
  }
  domain_ = domain;
  domain_name_ = name;
  domain_generation_ = policy.generation;
  return domain;
}

// Normalised addresses stand in room that the next match uses again.
void DeciderImpl::KeepAddresses(engine::Batch& batch) {
  const std::string_view text = scratch_.text;
  for (std::string_view& part : scratch_.parts) {
    const bool inside = std::less_equal<>()(text.data(), part.data()) &&
                        std::less<>()(part.data(), text.data() + text.size());
    if (inside) part = batch.Copy(part);
  }
}

DeciderImpl::Added DeciderImpl::AddMatches(Context& context, const Request& request, Asked& asked) {
  const PublishedPolicy& policy = *context.policy;
  const policy::Domain* const domain = FindDomain(policy, request.domain);
  if (domain == nullptr) [[unlikely]]
    return Added::kWrong;
  if (const Result<void> matched = policy.policy->Match(*domain, request.attributes, scratch_); !matched) {
    return Wrong(matched.error().kind, matched.error().message);
  }
  if (!scratch_.text.empty()) [[unlikely]]
    KeepAddresses(context.batch);
  if (scratch_.matches.size() > engine::kMaxPermitBuckets && TooManyPermits(request)) [[unlikely]] {
    return Wrong(ErrorKind::kTooLarge, "more than " + std::to_string(engine::kMaxPermitBuckets) +
                                           " permit limits of domain " + policy::Quoted(request.domain) +
                                           " apply to one request");
  }
  bool holds = false;
  Added added = Added::kNothing;
  for (const policy::Match& match : scratch_.matches) {
    const core::Limit& limit = *match.limit;
    if (!request.only_limit.empty() && limit.name != request.only_limit) [[unlikely]]
      continue;
    const std::optional<Payment> payment = PaymentFor(limit, request);
    if (!payment) continue;
    if (request.mode == engine::Mode::kHolders && payment->unit != kPermitUnit) [[unlikely]]
      return Wrong(ErrorKind::kInvalid, policy::Quoted(limit.name) + " is no permit limit: nobody holds it");
    holds |= payment->unit == kPermitUnit && payment->cost > 0;
    __builtin_prefetch(&policy.limits[limit.number]);  // read when the answer is put together
    if (added == Added::kNothing) AddGroup(context, request, limit.domain, asked);
    added = Added::kGroup;
    AddOperation(context, limit, std::span(scratch_.parts.data() + match.first_part, match.part_count),
                 payment->cost, payment->unit);
  }
  if (holds) [[unlikely]]
    BringPermit(context, request, asked);
  if (added == Added::kNothing && !request.only_limit.empty()) [[unlikely]] {
    return Wrong(ErrorKind::kNotFound, "no limit " + policy::Quoted(request.only_limit) + " of domain " +
                                           policy::Quoted(request.domain) + " applies to these attributes");
  }
  return added == Added::kNothing ? Unmatched(request) : added;
}

DeciderImpl::Added DeciderImpl::Unmatched(const Request& request) {
  if (request.mode != engine::Mode::kSettle) return Added::kNothing;
  error_ = UnknownId(request.options.request_id);
  return Added::kWrong;
}

bool DeciderImpl::TooManyPermits(const Request& request) const {
  size_t holding = 0;
  for (const policy::Match& match : scratch_.matches) {
    const std::optional<Payment> payment = PaymentFor(*match.limit, request);
    holding += payment && payment->unit == kPermitUnit && payment->cost > 0 ? 1 : 0;
  }
  return holding > engine::kMaxPermitBuckets;
}

void DeciderImpl::BringPermit(Context& context, const Request& request, Asked& asked) {
  if (asked.permit == Hash128{}) asked.permit = permit_ids_.Next();
  static_assert(alignof(core::PermitAsk) <= alignof(std::string_view));
  context.batch.groups().back().options.permit = new (context.batch.Allocate(sizeof(core::PermitAsk)))
      core::PermitAsk{asked.permit, Millis(request.options.lease.count()), request.options.holder,
                      &context == &now_ ? Micros{} : WaitLeft(request, asked)};
}

void DeciderImpl::AddGroup(Context& context, const Request& request, std::string_view domain,
                           const Asked& asked) {
  const CheckOptions& options = request.options;
  engine::Group& group = context.batch.AddGroup();
  group.mode = request.mode;
  group.options.max_wait =
      asked.waiter == nullptr ? Millis(options.max_wait.count()) : WaitLeft(request, asked);
  group.options.force = options.force;
  group.options.partial = options.partial;
  group.domain = domain;
  if (asked.listing != nullptr) [[unlikely]]
    group.listing = &asked.listing->list;
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
  session_.Expect(operation);
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

}  // namespace penstock::service
