// Records of one size by number, for what does not fit a slot: chunks that never move and a free list. Memory grows by
// a chunk at a time and is used again, not given back, until the slab goes.
//
// Thread contract: under the shard's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace penstock::engine {

template <class Record>
class Slab {
 public:
  // Makes sure that the next `count` Allocate calls find room; false when there is no memory.
  bool Reserve(size_t count) {
    while (free_.size() < count) {
      std::unique_ptr<Record[]> chunk(new (std::nothrow) Record[kChunkRecords]);
      if (chunk == nullptr) return false;
      const auto first = static_cast<uint32_t>(chunks_.size() * kChunkRecords);
      chunks_.push_back(std::move(chunk));
      for (uint32_t i = kChunkRecords; i-- > 0;) free_.push_back(first + i);
    }
    return true;
  }
  // Precondition: reserved.
  uint32_t Allocate() {
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void Free(uint32_t index) {
    (*this)[index] = Record{};
    free_.push_back(index);
  }
  Record& operator[](size_t index) { return chunks_[index / kChunkRecords][index % kChunkRecords]; }
  const Record& operator[](size_t index) const {
    return chunks_[index / kChunkRecords][index % kChunkRecords];
  }

 private:
  static constexpr uint32_t kChunkRecords = 256;

  std::vector<std::unique_ptr<Record[]>> chunks_;
  std::vector<uint32_t> free_;
};

}  // namespace penstock::engine
