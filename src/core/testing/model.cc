// The judge's versions, options and groups, over the buckets of model_buckets.cc.
#include "core/testing/model.h"

#include <algorithm>
#include <utility>

#include "core/testing/model_bucket.h"

namespace penstock::core::testing {
namespace {

std::unique_ptr<ModelBucket> MakeBucket(const ModelSpec& spec) {
  switch (spec.kind) {
    case ModelKind::kTokenBucket:
      return MakeTokenModel(spec);
    case ModelKind::kSlidingWindow:
      return MakeSlidingModel(spec);
    case ModelKind::kSlidingLog:
      return MakeLogModel(spec);
    case ModelKind::kFixedEpoch:
    case ModelKind::kFixedFirstRequest:
    case ModelKind::kFixedCalendar:
      return MakeFixedModel(spec);
    case ModelKind::kZero:
    case ModelKind::kUnlimited:
      break;
  }
  return nullptr;
}

// The first instant in (at, latest] at which `cost` fits, else `latest`; held against the definition.
int64_t FirstFit(const ModelBucket& bucket, int64_t at, int64_t cost, int64_t latest) {
  const int64_t first = std::min(bucket.FirstFit(at, cost), latest);
  Require(first > at, "a refusal without a wait");
  Require(!bucket.Fits(first - 1, cost), "admitted before the stated instant");
  Require(first == latest || bucket.Fits(first, cost), "refused at the stated instant");
  return first;
}

// The largest cost that fits.
int64_t Room(const ModelBucket& bucket, int64_t at) {
  if (!bucket.Fits(at, 0)) return 0;
  int64_t fits = 0;
  int64_t beyond = bucket.Capacity() + 1;
  while (beyond - fits > 1) {
    const int64_t middle = fits + (beyond - fits) / 2;
    (bucket.Fits(at, middle) ? fits : beyond) = middle;
  }
  return fits;
}

}  // namespace

struct Model::State {
  ModelSpec spec;
  std::unique_ptr<ModelBucket> bucket;  // null: zero or unlimited
  bool written = false;                 // a bucket that was never written has nothing to convert
  int64_t version = 0;                  // of `spec`
  int64_t bucket_version = 0;           // of the bucket
  bool differs = false;                 // the bucket is still under older parameters
  bool ad_hoc = false;                  // and these change with a charge only
  std::unique_ptr<ModelBucket> kept;    // the bucket before an ad hoc conversion that nothing confirmed yet
  ModelCharge charge;
  ModelVerdict verdict;
  int64_t ask = 0;

  bool reserves = false;  // max_wait: decided as if charged

  int64_t FirstFitUncharged(int64_t now, int64_t latest) const;
  void Open(int64_t now);
  void Confirm();
  void Judge(int64_t now, const ModelOptions& options);
  void Spend(int64_t now, int64_t cost);
  void Describe(int64_t now);
};

void Model::State::Open(int64_t now) {
  charge = {};
  verdict = {};
  reserves = false;
  if (spec.kind == ModelKind::kUnlimited) verdict.limit = verdict.remaining = -1;
  if (spec.kind == ModelKind::kZero) verdict.outcome = ModelOutcome::kNever;
  if (!bucket) return;
  verdict.limit = bucket->Capacity();
  if (!differs) return;
  if (!written) {
    bucket = MakeBucket(spec);
    Confirm();
  } else {
    if (ad_hoc) kept = bucket->Clone();
    verdict.saturated = bucket->Convert(now, spec);
    if (!ad_hoc) Confirm();
  }
  verdict.limit = bucket->Capacity();
}

// The first instant at which the bucket, left alone until then, would be converted to something that fits: by search.
int64_t Model::State::FirstFitUncharged(int64_t now, int64_t latest) const {
  const auto fits = [&](int64_t at) {
    const std::unique_ptr<ModelBucket> then = kept->Clone();
    then->Convert(at, spec);
    return then->Fits(at, ask);
  };
  int64_t refused = now, step = 1;
  while (refused + step < latest && !fits(refused + step)) step *= 2;
  int64_t admitted = std::min(refused + step, latest);
  refused += step / 2;
  while (admitted - refused > 1) {
    const int64_t middle = refused + (admitted - refused) / 2;
    (fits(middle) ? admitted : refused) = middle;
  }
  return admitted;
}

void Model::State::Confirm() {
  differs = false;
  kept = nullptr;
  bucket_version = version;
}

void Model::State::Judge(int64_t now, const ModelOptions& options) {
  const bool waits = spec.kind == ModelKind::kTokenBucket && !options.partial;
  const int64_t patience = waits ? options.max_wait_us : 0;
  reserves = patience > 0;
  if (!bucket || options.force || ask < 0) return;
  if (ask > bucket->Capacity()) {
    verdict.outcome = ModelOutcome::kNever;
    return;
  }
  if (bucket->Fits(now, ask)) return;
  const int64_t latest = bucket->OwnNow(now) + kModelLongestUs;
  const bool by_itself = kept && patience == 0 && spec.kind != ModelKind::kFixedCalendar;
  const int64_t first = by_itself ? FirstFitUncharged(now, latest) : FirstFit(*bucket, now, ask, latest);
  if (first - now <= patience) {
    verdict.wait_us = first - now;
    return;
  }
  verdict.outcome = ModelOutcome::kDenied;
  verdict.retry_after_us = first - patience - now;
}

void Model::State::Spend(int64_t now, int64_t cost) {
  verdict.taken = cost;
  if (!bucket) verdict.taken = std::max<int64_t>(cost, 0);
  if (!bucket || cost == 0) return;
  if (cost > 0) {
    verdict.saturated = bucket->Charge(now, cost, charge) || verdict.saturated;
  } else {
    verdict.taken = -bucket->Refund(now, -cost, charge);
  }
  if (verdict.taken == 0) return;
  written = true;
  Confirm();
  charge.version = version;
}

void Model::State::Describe(int64_t now) {
  if (!bucket) return;
  verdict.remaining = Room(*bucket, now);
  int64_t no_use = bucket->NoUseFrom(now);
  if (kept && !reserves) {  // until somebody is charged it fades by its own parameters
    const bool log = spec.kind == ModelKind::kSlidingLog;
    no_use = log ? std::min(no_use, kept->NoUseFrom(now)) : kept->NoUseFrom(now);
  }
  verdict.reset_after_us = std::max<int64_t>(0, no_use - now);
  if (kept) bucket = std::move(kept);  // nothing was charged: as if never converted
  kept = nullptr;
}

Model::Model(ModelSpec spec) : state_(std::make_unique<State>()) {
  state_->bucket = MakeBucket(spec);
  state_->spec = std::move(spec);
}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

void Model::Change(ModelSpec spec) {
  state_->spec = std::move(spec);
  ++state_->version;
  state_->differs = true;
  state_->ad_hoc = false;
}

void Model::ChangeAdHoc(ModelSpec spec) {
  state_->spec = std::move(spec);
  state_->differs = true;
  state_->ad_hoc = true;
}

const ModelCharge& Model::charge() const { return state_->charge; }
const ModelSpec& Model::spec() const { return state_->spec; }
bool Model::written() const { return state_->written; }
int64_t Model::bucket_version() const { return state_->bucket_version; }

ModelCharge Model::Place(int64_t now_us) const {
  ModelCharge place;
  if (state_->bucket) state_->bucket->Clone()->Charge(now_us, 1, place);
  place.at_us = now_us;
  place.cost = 0;
  place.version = state_->version;
  return place;
}

ModelVerdict Model::Decide(int64_t now_us, int64_t cost, const ModelOptions& options) {
  const ModelRequest request{.model = this, .cost = cost};
  return DecideTogether({&request, 1}, options, now_us)[0];
}

ModelVerdict Model::Adjust(const ModelCharge& charge, int64_t delta, int64_t now_us) {
  State& state = *state_;
  if (charge.cost + delta < 0) delta = charge.cost > 0 ? -charge.cost : std::max<int64_t>(delta, 0);
  const bool lost = delta < 0 && state.written && state.bucket_version > charge.version;
  const int64_t change = lost ? 0 : delta;
  bool saturated = false;
  if (state.bucket && change != 0 && state.written && state.differs && state.bucket->AdjustsBeforeConvert()) {
    saturated = state.bucket->Adjust(now_us, charge, change);
    state.Open(now_us);
  } else {
    state.Open(now_us);
    if (state.bucket && change != 0) saturated = state.bucket->Adjust(now_us, charge, change);
    if (change > 0) state.written = true;
  }
  state.verdict.saturated = state.verdict.saturated || saturated;
  state.ask = 0;
  state.Judge(now_us, {});
  state.Describe(now_us);
  state.charge = charge;
  state.charge.cost += delta;
  return state.verdict;
}

std::vector<ModelVerdict> DecideTogether(std::span<const ModelRequest> requests, const ModelOptions& options,
                                         int64_t now_us) {
  for (const ModelRequest& request : requests) request.model->state_->Open(now_us);
  for (const ModelRequest& request : requests) {
    int64_t& ask = request.model->state_->ask;
    ask = request.cost;
    if (!options.partial || options.force || request.cost <= 0) continue;
    for (const ModelRequest& other : requests) {
      if (other.shadow || other.unit != request.unit || other.cost <= 0) continue;
      ask = std::min(ask, other.cost);
      const ModelBucket* const bucket = other.model->state_->bucket.get();
      if (bucket != nullptr) ask = std::min(ask, Room(*bucket, now_us));
    }
    ask = std::max<int64_t>(ask, 1);
  }
  bool allowed = !options.dry;
  for (const ModelRequest& request : requests) {
    request.model->state_->Judge(now_us, options);
    const bool passes = request.model->state_->verdict.outcome == ModelOutcome::kAllowed;
    allowed = allowed && (passes || request.shadow);
  }
  std::vector<ModelVerdict> verdicts;
  for (const ModelRequest& request : requests) {
    Model::State& state = *request.model->state_;
    if (!allowed) state.verdict.wait_us = 0;
    if (allowed && state.verdict.outcome == ModelOutcome::kAllowed) state.Spend(now_us, state.ask);
    state.Describe(now_us);
    verdicts.push_back(state.verdict);
  }
  return verdicts;
}

}  // namespace penstock::core::testing
