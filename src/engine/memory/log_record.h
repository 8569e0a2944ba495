// The runs of one sliding log: an array used from `head`, so that dropping the oldest is a step and the live part stays
// one span. Never more runs than core::kMaxLogCount: core lets what force adds beyond them count with the newest.
//
// Thread contract: under the shard's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/operation.h"

namespace penstock::engine {

class LogRecord {
 public:
  std::span<const core::LogRun> runs() const { return {runs_.get() + head_, size_}; }
  int64_t sum() const { return sum_; }
  // Makes room for `count` more runs; false when there is no memory. Moves the runs: spans of them end here.
  bool Reserve(uint32_t count);
  // Precondition: room for edit.append_count runs, drops at most what is there.
  void Apply(const core::BucketEdit& edit);
  // Takes the runs over from a snapshot; false when there is no memory.
  bool Assign(std::span<const core::LogRun> runs, int64_t sum);

 private:
  // Invariant: head_ + size_ <= capacity_.
  std::unique_ptr<core::LogRun[]> runs_;
  uint32_t head_ = 0;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
  int64_t sum_ = 0;
};

}  // namespace penstock::engine
