#include "engine/memory/registry.h"

#include <algorithm>

namespace penstock::engine {

core::Version Registry::Register(const Hash128& limit, const Hash128& content, EngineTime now) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(limit);
  if (it != entries_.end() && it->second.content == content) return it->second.version;
  if (it == entries_.end() && entries_.size() >= kMaxEntries) return 0;
  last_ = std::max(last_ + 1, now.us);
  entries_[limit] = {content, last_};
  return last_;
}

std::vector<Registry::Entry> Registry::Entries() const {
  const MutexLock lock(mutex_);
  std::vector<Entry> out;
  out.reserve(entries_.size());
  for (const auto& [limit, value] : entries_) out.push_back({limit, value.content, value.version});
  return out;
}

bool Registry::Restore(const Entry& entry) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxEntries) return false;
  return entries_.try_emplace(entry.limit, Value{entry.content, entry.version}).second;
}

core::Version Registry::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

void Registry::RaiseLast(core::Version version) {
  const MutexLock lock(mutex_);
  last_ = std::max(last_, version);
}

}  // namespace penstock::engine
