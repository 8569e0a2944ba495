#include "penstock/limiter.h"

#include <algorithm>
#include <utility>

#include "embed/limiter_impl.h"
#include "policy/rate.h"

namespace penstock {
namespace {

// The decisions are put together in place; what is left to say is that a request was wrong.
class InPlace final : public service::Receiver {
 public:
  explicit InPlace(Decision* decisions) : decisions_(decisions) {}
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override {
    if (decision) [[likely]]
      return;
    Decision& wrong = decisions_[token];
    wrong = Decision();
    wrong.error = decision.error();
  }

 private:
  Decision* const decisions_;
};

void DecideAt(embed::Visit& visit, const service::Request& request, Decision& decision) {
  std::optional<Error> error = visit.decider().DecideNow(request, decision);
  if (!error) [[likely]]
    return;
  decision = Decision();
  decision.error = std::move(error);
}

core::RateSpec SpecOf(const AdHocLimit& limit) {
  core::RateSpec spec;
  spec.count = limit.count;
  spec.period = {limit.period.count()};
  spec.burst = limit.burst;
  switch (limit.algorithm) {
    case AdHocLimit::Algorithm::kTokenBucket:
      spec.algorithm = core::Algorithm::kTokenBucket;
      break;
    case AdHocLimit::Algorithm::kFixedWindow:
      spec.algorithm = core::Algorithm::kFixedWindow;
      break;
    case AdHocLimit::Algorithm::kFixedWindowFromFirst:
      spec.algorithm = core::Algorithm::kFixedWindow;
      spec.window = core::WindowKind::kFirstRequest;
      break;
    case AdHocLimit::Algorithm::kSlidingWindow:
      spec.algorithm = core::Algorithm::kSlidingWindow;
      break;
    case AdHocLimit::Algorithm::kSlidingLog:
      spec.algorithm = core::Algorithm::kSlidingLog;
      break;
  }
  return spec;
}

service::Request CheckRequest(std::string_view domain, std::span<const Attribute> attributes,
                              const CheckOptions& options) {
  service::Request request;
  request.domain = domain;
  request.attributes = attributes;
  request.options = options;
  return request;
}

Expected<void> ToExpected(Result<void> result) {
  if (result) return {};
  return std::move(result).error();
}

}  // namespace

Expected<AdHocLimit> AdHocLimit::Parse(std::string_view rate) {
  Result<policy::Rate> parsed = policy::ParseRate(rate);
  if (!parsed) return std::move(parsed).error();
  if (parsed->kind != core::RateKind::kFinite || parsed->period.count == 0) {
    return Error{ErrorKind::kInvalid, "an ad hoc limit needs a count and a period, e.g. 100/min"};
  }
  AdHocLimit limit;
  limit.count = parsed->count;
  limit.period = std::chrono::microseconds(parsed->period.count);
  return limit;
}

Limiter::Limiter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Limiter::Limiter(Limiter&& other) noexcept = default;
Limiter& Limiter::operator=(Limiter&& other) noexcept = default;
Limiter::~Limiter() = default;

Expected<Limiter> Limiter::Open(const LimiterOptions& options) {
  return LimiterOpener::Open(options, nullptr);
}

LimiterStats Limiter::Stats() const {
  const engine::EngineStats engine = impl_->engine().stats();
  return {engine.keys, engine.max_keys, impl_->metrics().Totals().requests, engine.refused_full};
}

Decision Limiter::Impl::Decide(const service::Request& request) {
  if (remote_ != nullptr) return remote_->Decide(request);
  Decision decision;
  embed::Visit visit(places_);
  DecideAt(visit, request, decision);
  return decision;
}

Decision Limiter::Check(std::string_view domain, std::span<const Attribute> attributes,
                        const CheckOptions& options) {
  if (embed::Remote* const remote = impl_->remote(); remote != nullptr) [[unlikely]] {
    return remote->Decide(CheckRequest(domain, attributes, options));
  }
  Decision decision;
  embed::Visit visit(impl_->places());
  service::Request& request = visit.requests()[0];
  request.domain = domain;
  request.attributes = attributes;
  request.options = options;
  DecideAt(visit, request, decision);
  return decision;
}

Decision Limiter::Check(std::string_view key, const AdHocLimit& limit, const CheckOptions& options) {
  service::Request request;
  request.ad_hoc = SpecOf(limit);
  request.ad_hoc_key = key;
  request.options = options;
  return impl_->Decide(request);
}

Acquired Limiter::Acquire(std::string_view domain, std::span<const Attribute> attributes,
                          const CheckOptions& options) {
  return impl_->Acquire(CheckRequest(domain, attributes, options));
}

Acquired Limiter::Acquire(std::string_view key, const Semaphore& semaphore, const CheckOptions& options) {
  service::Request request;
  request.ad_hoc = {.algorithm = core::Algorithm::kPermits,
                    .count = semaphore.permits,
                    .period = Millis(semaphore.lease.count())};
  request.ad_hoc_key = key;
  request.options = options;
  return impl_->Acquire(request);
}

void Limiter::CheckMany(std::span<const Request> requests, std::span<Decision> decisions) {
  if (embed::Remote* const remote = impl_->remote(); remote != nullptr) {
    return remote->DecideMany(requests, decisions);
  }
  const size_t count = std::min(requests.size(), decisions.size());
  InPlace receiver(decisions.data());
  for (size_t begin = 0; begin < count; begin += embed::Place::kRun) {
    const size_t end = std::min(count, begin + embed::Place::kRun);
    embed::Visit visit(impl_->places());
    for (size_t i = begin; i < end; ++i) {
      service::Request& request = visit.requests()[i - begin];
      request.domain = requests[i].domain;
      request.attributes = requests[i].attributes;
      request.options = requests[i].options;
      request.into = &decisions[i];
      visit.decider().Submit(request, receiver, i);
    }
    visit.decider().Flush();
  }
}

void Limiter::CheckAsync(std::string_view domain, std::span<const Attribute> attributes,
                         const CheckOptions& options, const Callback& callback) {
  embed::Remote* const remote = impl_->remote();
  if (remote == nullptr) return callback(Check(domain, attributes, options));
  remote->DecideAsync(CheckRequest(domain, attributes, options), callback);
}

Decision Limiter::Look(std::string_view domain, std::span<const Attribute> attributes,
                       std::string_view limit) {
  service::Request request;
  request.look = true;
  request.domain = domain;
  request.attributes = attributes;
  request.only_limit = limit;
  return impl_->Decide(request);
}

Decision Limiter::Settle(std::string_view domain, std::span<const Attribute> attributes,
                         std::string_view request_id, std::span<const UnitCost> used) {
  service::Request request;
  request.mode = engine::Mode::kSettle;
  request.domain = domain;
  request.attributes = attributes;
  request.options.request_id = request_id;
  request.options.costs = used;
  return impl_->Decide(request);
}

Decision Limiter::Settle(std::string_view key, const AdHocLimit& limit, std::string_view request_id,
                         std::span<const UnitCost> used) {
  service::Request request;
  request.mode = engine::Mode::kSettle;
  request.ad_hoc = SpecOf(limit);
  request.ad_hoc_key = key;
  request.options.request_id = request_id;
  request.options.costs = used;
  return impl_->Decide(request);
}

Decision Limiter::Reset(std::string_view domain, std::span<const Attribute> attributes,
                        std::string_view limit) {
  service::Request request;
  request.mode = engine::Mode::kReset;
  request.domain = domain;
  request.attributes = attributes;
  request.only_limit = limit;
  return impl_->Decide(request);
}

Decision Limiter::Reset(std::string_view key, const AdHocLimit& limit) {
  service::Request request;
  request.mode = engine::Mode::kReset;
  request.ad_hoc = SpecOf(limit);
  request.ad_hoc_key = key;
  return impl_->Decide(request);
}

Expected<void> Limiter::Reload() {
  const std::string& file = impl_->options().policy_file;
  if (file.empty()) return Error{ErrorKind::kInvalid, "there is no policy file to read again"};
  return ToExpected(impl_->LoadFile(file));
}

Expected<void> Limiter::Reload(std::string_view policy_text) {
  return ToExpected(impl_->Load(policy_text, "policy"));
}

Expected<void> Limiter::SaveSnapshot() {
  const std::string& file = impl_->options().snapshot_file;
  if (file.empty()) return Error{ErrorKind::kInvalid, "there is no snapshot_file"};
  return ToExpected(impl_->memory().SaveSnapshot(file));
}

const char* Version() { return PENSTOCK_VERSION; }

}  // namespace penstock
