#include "engine/engine.h"

namespace penstock::engine {

void Batch::NextChunk(size_t bytes) {
  while (current_ < chunks_.size() && chunks_[current_].capacity < bytes) ++current_;
  if (current_ == chunks_.size()) {
    const size_t capacity = bytes > kChunkBytes ? bytes : kChunkBytes;
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(capacity), capacity});
  }
  next_ = chunks_[current_].bytes.get();
  end_ = next_ + chunks_[current_].capacity;
  ++current_;
}

void Batch::Clear() {
  // Big keys are rare: what they took is given back, the ordinary chunks stay for the next call.
  constexpr size_t kKeptChunks = 4;
  if (chunks_.size() > kKeptChunks) [[unlikely]]
    chunks_.resize(kKeptChunks);
  groups_.clear();
  operation_count_ = 0;
  policy.reset();
  // The first chunk is at hand at once: most calls need no other.
  current_ = chunks_.empty() ? 0 : 1;
  next_ = chunks_.empty() ? nullptr : chunks_.front().bytes.get();
  end_ = chunks_.empty() ? nullptr : next_ + chunks_.front().capacity;
}

}  // namespace penstock::engine
