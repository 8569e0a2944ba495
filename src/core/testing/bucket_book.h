// The smallest engine: buckets in plain variables, edits carried out to the letter. For tests of the rules.
#pragma once

#include <memory>
#include <vector>

#include "core/group.h"

namespace penstock::core::testing {

// One bucket as an engine stores it.
class StoredBucket {
 public:
  // What an engine hands to the rules; valid until the next Apply or Forget.
  BucketView View() const {
    BucketView view;
    view.present = present_;
    view.version = version_;
    view.params = present_ ? &params_ : nullptr;
    view.state = state_;
    view.runs = runs_;
    return view;
  }

  void Apply(const Limit& limit, const BucketEdit& edit) {
    if (!edit.write) return;
    present_ = true;
    version_ = limit.version;
    params_ = limit.params;
    state_ = edit.state;
    const auto begin = runs_.begin();
    const bool removed = edit.amend && edit.amend_weight == 0;
    if (edit.amend) runs_[edit.amend_index].weight = edit.amend_weight;
    if (removed) runs_.erase(begin + edit.amend_index);
    runs_.resize(runs_.size() - edit.drop_newest);
    runs_.erase(runs_.begin(), runs_.begin() + edit.drop_oldest);
    for (uint32_t i = 0; i < edit.append_count; ++i) runs_.push_back(edit.append[i]);
  }

  void Forget() { *this = {}; }
  bool present() const { return present_; }
  EngineTime IdleAt() const { return core::IdleAt(params_, state_); }
  const BucketState& state() const { return state_; }
  const std::vector<LogRun>& runs() const { return runs_; }

 private:
  bool present_ = false;
  Version version_ = 0;
  LimitParams params_;
  BucketState state_;
  std::vector<LogRun> runs_;
};

// A limit with its one bucket, and a request to it.
struct TestLimit {
  Limit limit;
  StoredBucket bucket;
  const WindowBoundaries* boundaries = nullptr;
  Charge charge;  // of the last request

  TestLimit() = default;
  explicit TestLimit(const RateSpec& spec, Version version = 1) {
    limit.params = *CompileRate(spec);
    limit.version = version;
  }

  Operation Ask(int64_t cost) const {
    Operation operation;
    operation.limit = &limit;
    operation.cost = cost;
    operation.boundaries = boundaries;
    operation.bucket = bucket.View();
    return operation;
  }
  // Decides alone and writes.
  Verdict Decide(EngineTime now, int64_t cost, const GroupOptions& options = {}) {
    Operation operation = Ask(cost);
    if (DecideGroup({&operation, 1}, options, now) != GroupStatus::kDecided) return {};
    bucket.Apply(limit, operation.edit);
    charge = operation.charge;
    return operation.verdict;
  }
  Verdict Adjust(EngineTime now, const Charge& earlier, int64_t delta) {
    Operation operation = Ask(0);
    AdjustCharge(operation, earlier, delta, now);
    bucket.Apply(limit, operation.edit);
    charge = operation.charge;
    return operation.verdict;
  }
  void Change(const RateSpec& spec) {
    limit.params = *CompileRate(spec);
    if (limit.version != 0) ++limit.version;
  }
};

}  // namespace penstock::core::testing
