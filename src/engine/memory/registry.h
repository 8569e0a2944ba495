// The versions of limits (rule E6): a limit keeps its version while its parameters stay the same, and gets a new one,
// larger than any given before, when they change.
//
// Thread contract: all methods from any thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/time.h"
#include "core/limit.h"

namespace penstock::engine {

class Registry {
 public:
  // Limits ever registered; a bound for the file and for memory.
  static constexpr size_t kMaxEntries = 4'000'000;

  struct Entry {
    Hash128 limit;    // keyed hash of domain and name
    Hash128 content;  // keyed hash of identities and parameters, overrides included
    core::Version version = 0;
  };

  // The version for this content at `now`; 0 when the registry is full.
  core::Version Register(const Hash128& limit, const Hash128& content, EngineTime now);

  // For the snapshot.
  std::vector<Entry> Entries() const;
  bool Restore(const Entry& entry);  // false when full or given twice
  core::Version last() const;
  // No version at or below this is given any more.
  void RaiseLast(core::Version version);

 private:
  struct Value {
    Hash128 content;
    core::Version version = 0;
  };
  struct NameHasher {
    size_t operator()(const Hash128& name) const { return static_cast<size_t>(name.low); }
  };

  mutable Mutex mutex_;
  std::unordered_map<Hash128, Value, NameHasher> entries_ GUARDED_BY(mutex_);
  core::Version last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::engine
