#include "engine/memory/param_table.h"

namespace penstock::engine {

size_t ParamTable::Hasher::operator()(const Entry& entry) const {
  const core::LimitParams& p = entry.params;
  uint64_t h = static_cast<uint64_t>(entry.version);
  const auto mix = [&h](int64_t part) {
    h = (h ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 29;
  };
  mix(static_cast<int64_t>(p.algorithm) << 16 | static_cast<int64_t>(p.window) << 8 |
      static_cast<int64_t>(p.kind));
  mix(p.capacity);
  mix(p.count);
  mix(p.period.count);
  return h;
}

uint32_t ParamTable::Intern(const core::LimitParams& params, core::Version version) {
  const MutexLock lock(mutex_);
  const auto [it, fresh] = index_.try_emplace(Entry{params, version}, 0);
  if (!fresh) {
    At(it->second).references.fetch_add(1, std::memory_order_relaxed);
    return it->second;
  }
  if (free_.empty()) {
    const auto first = static_cast<uint32_t>(owned_.size()) << kChunkBits;
    if (first >= max_entries_) {
      index_.erase(it);
      return kNone;
    }
    owned_.push_back(std::make_unique<Counted[]>(kChunkEntries));
    chunks_[first >> kChunkBits].store(owned_.back().get(), std::memory_order_release);
    const uint32_t end = first + kChunkEntries < max_entries_ ? first + kChunkEntries : max_entries_;
    for (uint32_t i = end; i-- > first;) free_.push_back(i);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Counted& counted = At(index);
  counted.entry = it->first;
  counted.references.store(1, std::memory_order_relaxed);
  counted.used = true;
  it->second = index;
  return index;
}

void ParamTable::Release(uint32_t index) {
  Counted& counted = At(index);
  if (counted.references.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const MutexLock lock(mutex_);
  // Meanwhile it may have been interned anew, or freed by another release that came here first.
  if (!counted.used || counted.references.load(std::memory_order_acquire) > 0) return;
  counted.used = false;
  index_.erase(counted.entry);
  free_.push_back(index);
}

size_t ParamTable::size() const {
  const MutexLock lock(mutex_);
  return index_.size();
}

}  // namespace penstock::engine
