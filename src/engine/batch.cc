#include <cstring>

#include "engine/engine.h"

namespace penstock::engine {

Group& Batch::AddGroup() {
  Group& group = groups_.emplace_back();
  group.first = static_cast<uint32_t>(operations_.size());
  return group;
}

core::Operation& Batch::AddOperation(const core::Limit& limit, std::span<const std::string_view> key) {
  core::Operation& operation = AddOperationInPlace(limit, key);
  auto* parts = const_cast<std::string_view*>(operation.key.data());  // our own arena
  for (size_t i = 0; i < key.size(); ++i) parts[i] = Copy(key[i]);
  return operation;
}

core::Operation& Batch::AddOperationInPlace(const core::Limit& limit, std::span<const std::string_view> key) {
  auto* parts = reinterpret_cast<std::string_view*>(
      Allocate(key.size() * sizeof(std::string_view), alignof(std::string_view)));
  for (size_t i = 0; i < key.size(); ++i) new (&parts[i]) std::string_view(key[i]);
  core::Operation& operation = operations_.emplace_back();
  operation.limit = &limit;
  operation.key = {parts, key.size()};
  ++groups_.back().count;
  return operation;
}

std::string_view Batch::Copy(std::string_view bytes) {
  if (bytes.empty()) return {};
  char* out = reinterpret_cast<char*>(Allocate(bytes.size(), 1));
  std::memcpy(out, bytes.data(), bytes.size());
  return {out, bytes.size()};
}

std::byte* Batch::Allocate(size_t bytes, size_t alignment) {
  for (;;) {
    if (chunk_ < chunks_.size()) {
      const size_t start = (used_ + alignment - 1) & ~(alignment - 1);
      if (start + bytes <= chunks_[chunk_].capacity) {
        used_ = start + bytes;
        return reinterpret_cast<std::byte*>(chunks_[chunk_].bytes.get() + start);
      }
      ++chunk_;
      used_ = 0;
      continue;
    }
    const size_t capacity = bytes > kChunkBytes ? bytes : kChunkBytes;
    chunks_.push_back({std::make_unique<char[]>(capacity), capacity});
  }
}

void Batch::Clear() {
  // Big keys are rare: what they took is given back, the ordinary chunks stay for the next call.
  constexpr size_t kKeptChunks = 4;
  if (chunks_.size() > kKeptChunks) chunks_.resize(kKeptChunks);
  groups_.clear();
  operations_.clear();
  chunk_ = 0;
  used_ = 0;
  policy.reset();
}

}  // namespace penstock::engine
