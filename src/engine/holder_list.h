// Who holds a bucket of a permit limit, for people and for the check of drift.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/time.h"

namespace penstock::engine {

struct HolderList {
  static constexpr size_t kMaxEntries = 1'000;

  struct Entry {
    Hash128 id;
    uint32_t weight = 1;
    int64_t fence = 0;
    Micros expires_in{};
    std::string holder;  // as the asker named himself; may be empty
  };

  // In.
  std::string only;        // holders of this name; empty = all
  bool sums_only = false;  // no entries, but `held`; where the sum is wrong it is set right

  // Out.
  Hash128 bucket;      // the engine's name: with an entry, what makes a PermitId
  int64_t in_use = 0;  // by the sum that the engine keeps
  int64_t held = 0;    // sums_only: by the set of holders
  int64_t waiting = 0;
  std::vector<Entry> entries;  // unexpired, in order of expiry
  bool more = false;           // there are more than kMaxEntries
};

}  // namespace penstock::engine
