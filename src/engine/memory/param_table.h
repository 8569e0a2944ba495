// Parameters and versions that slots and bindings refer to by number, so that a slot needs 22 bits instead of 64
// bytes. Equal ones share a number; a number is used again when nothing refers to it any more.
//
// Thread contract: all methods from any thread. At(i) needs no lock, but the caller must know that a reference to i is
// held (its own binding, or a slot under its shard's lock); what it returns then stays as it is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "core/limit.h"
#include "core/params.h"

namespace penstock::engine {

class ParamTable {
 public:
  // Different parameters in use at one time. Ad hoc callers can make many; when all are in use, a limit that needs
  // one more is answered `unavailable`, reason full.
  static constexpr uint32_t kMaxEntries = 1u << 20;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    core::LimitParams params;
    core::Version version = 0;
  };

  explicit ParamTable(uint32_t max_entries = kMaxEntries) : max_entries_(max_entries) {}

  // The number of the pair, with one reference more; kNone when the table is full.
  uint32_t Intern(const core::LimitParams& params, core::Version version);
  // Precondition: a reference is held.
  void AddReference(uint32_t index) { At(index).references.fetch_add(1, std::memory_order_relaxed); }
  void Release(uint32_t index);
  const Entry& operator[](uint32_t index) const { return At(index).entry; }
  size_t size() const;

 private:
  static constexpr uint32_t kChunkBits = 10;
  static constexpr uint32_t kChunkEntries = 1u << kChunkBits;

  struct Counted {
    Entry entry;
    std::atomic<uint32_t> references{0};
    bool used = false;  // under mutex_: stands in index_
  };
  struct Hasher {
    size_t operator()(const Entry& entry) const;
  };
  struct Equal {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.version == b.version && a.params == b.params;
    }
  };

  Counted& At(uint32_t index) const {
    return chunks_[index >> kChunkBits].load(std::memory_order_acquire)[index & (kChunkEntries - 1)];
  }

  const uint32_t max_entries_;
  // Chunks never move, so that readers need no lock.
  std::array<std::atomic<Counted*>, kMaxEntries / kChunkEntries> chunks_{};

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Counted[]>> owned_ GUARDED_BY(mutex_);
  std::unordered_map<Entry, uint32_t, Hasher, Equal> index_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
};

}  // namespace penstock::engine
