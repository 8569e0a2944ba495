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

void Batch::DropChunks() { chunks_.resize(kKeptChunks); }

}  // namespace penstock::engine
