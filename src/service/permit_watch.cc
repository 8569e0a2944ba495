#include "service/permit_watch.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace penstock::service {

PermitWatch::~PermitWatch() { Stop(); }

void PermitWatch::Note(const core::Limit& limit, std::span<const std::string_view> key, const Hash128& bucket,
                       const std::shared_ptr<const void>& policy) {
  MutexLock lock(mutex_);
  auto found = buckets_.find(bucket);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMaxBuckets) return;
    found = buckets_.try_emplace(bucket).first;
    found->second.key.assign(key.begin(), key.end());
  }
  found->second.limit = &limit;
  found->second.policy = policy;
  found->second.idle_rounds = 0;
}

void PermitWatch::Follow(engine::EngineSession& session, Timer& timer, const Clock& clock, Micros every) {
  session_ = &session;
  timer_ = &timer;
  clock_ = &clock;
  every_ = every;
  Schedule(every_, &PermitWatch::Turn);
}

void PermitWatch::Stop() {
  if (timer_ == nullptr) return;
  timer_->Cancel(timer_id_);
  timer_ = nullptr;
}

void PermitWatch::Schedule(Micros after, void (PermitWatch::*task)()) {
  timer_id_ = timer_->Schedule(clock_->Steady() + after, [this, task] { (this->*task)(); });
}

void PermitWatch::Turn() {
  names_.clear();
  asked_ = 0;
  {
    MutexLock lock(mutex_);
    names_.reserve(buckets_.size());
    for (auto& [name, bucket] : buckets_) {
      names_.push_back(name);
      bucket.answered = false;
    }
  }
  Continue();
}

void PermitWatch::Continue() {
  while (asked_ < names_.size()) {
    Ask(std::min(names_.size() - asked_, kBucketsPerCall));
    if (open_ > 0) return;
  }
  Finish();
}

void PermitWatch::Ask(size_t count) {
  batch_.Clear();
  lists_.assign(count, {});
  {
    MutexLock lock(mutex_);
    std::vector<std::string_view> key;
    for (size_t i = 0; i < count; ++i) {
      const Bucket& bucket = buckets_.at(names_[asked_ + i]);
      key.assign(bucket.key.begin(), bucket.key.end());
      lists_[i].sums_only = true;
      engine::Group& group = batch_.AddGroup();
      group.mode = engine::Mode::kHolders;
      group.domain = bucket.limit->domain;
      group.listing = &lists_[i];
      group.token = i;
      batch_.AddOperation(*bucket.limit, key);
    }
  }
  open_ = count;
  inside_ = true;
  session_->Decide(batch_, clock_->Steady() + kTimeout, *this);
  inside_ = false;
}

void PermitWatch::Decided(engine::Batch&, engine::Group& group) noexcept {
  if (group.result.state == engine::GroupState::kDecided) {
    const engine::HolderList& list = lists_[group.token];
    MutexLock lock(mutex_);
    Bucket& bucket = buckets_.at(names_[asked_ + group.token]);
    bucket.answered = true;
    bucket.in_use = list.in_use;
    bucket.held = list.held;
    bucket.waiting = list.waiting;
  }
  if (--open_ > 0) return;
  asked_ += lists_.size();
  // Not from here: the engine may be in the middle of its own work.
  if (!inside_ && timer_ != nullptr) Schedule(Micros{}, &PermitWatch::Continue);
}

void PermitWatch::Finish() {
  {
    MutexLock lock(mutex_);
    std::map<std::pair<std::string_view, std::string_view>, PermitGauge> sums;
    for (const PermitGauge& before : gauges_) {  // a limit that is no longer watched goes on as 0
      sums[{before.domain, before.limit}].drift_total = before.drift_total;
    }
    for (auto& [name, bucket] : buckets_) {
      Add(bucket, sums[{bucket.limit->domain, bucket.limit->name}]);
      bucket.idle_rounds = bucket.in_use == 0 && bucket.waiting == 0 ? bucket.idle_rounds + 1 : 0;
    }
    std::vector<PermitGauge> gauges;
    for (auto& [name, gauge] : sums) {
      gauge.domain = name.first;
      gauge.limit = name.second;
      gauge.drift_total += static_cast<uint64_t>(gauge.drift);
      gauges.push_back(std::move(gauge));
    }
    gauges_ = std::move(gauges);
    std::erase_if(buckets_, [](const auto& entry) { return entry.second.idle_rounds > kIdleRounds; });
  }
  round_.fetch_add(1, std::memory_order_relaxed);
  if (timer_ != nullptr) Schedule(every_, &PermitWatch::Turn);
}

void PermitWatch::Add(const Bucket& bucket, PermitGauge& gauge) {
  ++gauge.buckets;
  if (!bucket.answered) {
    ++gauge.unasked;
    return;
  }
  const int64_t permits = bucket.limit->params.capacity;
  gauge.permits += permits;
  gauge.in_use += bucket.held;
  gauge.available += std::max<int64_t>(permits - bucket.in_use, 0);
  gauge.waiting += bucket.waiting;
  gauge.drift += std::abs(bucket.in_use - bucket.held);
  gauge.exhausted += bucket.in_use >= permits;
  gauge.above += bucket.held > permits;
}

std::vector<PermitGauge> PermitWatch::Gauges() const {
  MutexLock lock(mutex_);
  return gauges_;
}

}  // namespace penstock::service
