#include "engine/memory/log_record.h"

#include <algorithm>
#include <new>

namespace penstock::engine {

bool LogRecord::Reserve(uint32_t count) {
  if (capacity_ - head_ - size_ >= count) return true;
  core::LogRun* const live = runs_.get() + head_;
  if (head_ >= count && head_ >= capacity_ / 2) {
    std::copy(live, live + size_, runs_.get());
    head_ = 0;
    return true;
  }
  const uint32_t capacity = std::max(size_ + size_ / 2 + count, uint32_t{4});
  std::unique_ptr<core::LogRun[]> fresh(new (std::nothrow) core::LogRun[capacity]);
  if (fresh == nullptr) return false;
  std::copy(live, live + size_, fresh.get());
  runs_ = std::move(fresh);
  head_ = 0;
  capacity_ = capacity;
  return true;
}

bool LogRecord::Assign(std::span<const core::LogRun> runs, int64_t sum) {
  if (!Reserve(static_cast<uint32_t>(runs.size()))) return false;
  std::copy(runs.begin(), runs.end(), runs_.get() + head_);
  size_ = static_cast<uint32_t>(runs.size());
  sum_ = sum;
  return true;
}

void LogRecord::Apply(const core::BucketEdit& edit) {
  core::LogRun* live = runs_.get() + head_;
  if (edit.amend) live[edit.amend_index].weight = edit.amend_weight;
  head_ += edit.drop_oldest;
  live += edit.drop_oldest;
  size_ -= edit.drop_oldest + edit.drop_newest;
  if (edit.amend && edit.amend_weight == 0) {
    core::LogRun* const gone = live + (edit.amend_index - edit.drop_oldest);
    std::copy(gone + 1, live + size_, gone);
    --size_;
  }
  for (uint32_t i = 0; i < edit.append_count; ++i) live[size_++] = edit.append[i];
  sum_ = edit.state.value;
}

}  // namespace penstock::engine
