// What was decided, counted by limit: never by key, so the number of series is the number of limits.
//
// Every event loop counts in an array of its own (plain loads and stores of relaxed atomics, no shared line), and a
// reader sums them. A limit keeps its slot over reloads, so its counters go on.
//
// Thread contract: Metrics is for any thread; a LoopCounters is written by its loop alone and read by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "penstock/decision.h"
#include "penstock/outcome.h"

namespace penstock::service {

// A counter that one thread writes and any thread reads.
class LoopCounter {
 public:
  void Add(uint64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  // Of what is there now: a sum over loops is never below 0.
  void Subtract(uint64_t n) { Add(~n + 1); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

inline constexpr size_t kOutcomes = 4;
inline constexpr size_t kReasons = static_cast<size_t>(Reason::kStale) + 1;

// One limit's counters on one loop. The first line is what an ordinary decision touches.
struct alignas(64) LimitCounters {
  std::array<LoopCounter, kOutcomes> outcomes;  // enforced limits, by the limit's own outcome
  std::array<LoopCounter, kOutcomes> degraded;  // the same, decided without the engine
  std::array<LoopCounter, kOutcomes> shadow;    // shadow limits; denied and never = "would deny"
  LoopCounter saturated;
};
static_assert(sizeof(LimitCounters) == 128);

// A loop's counters that belong to no limit.
struct LoopTotals {
  LoopCounter requests;   // checks submitted; looks, resets and settles are not counted
  LoopCounter unmatched;  // checks to which no limit applied
  LoopCounter invalid;    // refused as the caller's mistake
  LoopCounter conflicts;  // request ids in use by another request
  LoopCounter replayed;
  LoopCounter not_replayable;
  LoopCounter repeats;  // groups decided again because the policy or the calendar had moved on
  LoopCounter ad_hoc_compiled;
  std::array<LoopCounter, kReasons>
      degraded;  // checks answered, in part at least, without the engine; index: Reason

  LoopCounter permits_granted;  // that somebody heard of; a replay is none
  // What releases and renewals were answered.
  LoopCounter permits_released;
  LoopCounter permits_renewed;
  LoopCounter permits_expired;  // lost: the lease ran out before
  LoopCounter permits_unknown;
  LoopCounter permits_unavailable;
  LoopCounter permits_handed_back;  // granted to somebody who had gone
  LoopCounter permits_waiting;      // now, in queues
  LoopCounter waits_refused;        // denied at once, because too many waited here already
  LoopCounter asked_again;          // by those who wait: woken, or by the clock
  LoopCounter releases_repeated;    // that the engine could not be asked about before
  LoopCounter releases_lost;        // no longer repeated: the lease must end them
};

class LoopCounters {
 public:
  static constexpr size_t kChunk = 256;
  static constexpr size_t kChunks = 4'096;
  static constexpr size_t kMaxSlots = kChunk * kChunks;

  LoopCounters() = default;
  ~LoopCounters();
  LoopCounters(const LoopCounters&) = delete;
  LoopCounters& operator=(const LoopCounters&) = delete;

  // The loop's thread only. slot < kMaxSlots.
  LimitCounters& At(uint32_t slot) {
    Chunk* chunk = chunks_[slot / kChunk].load(std::memory_order_relaxed);
    if (chunk == nullptr) [[unlikely]]
      chunk = AddChunk(slot / kChunk);
    return (*chunk)[slot % kChunk];
  }
  // Any thread; null while the loop has not counted there.
  const LimitCounters* Peek(uint32_t slot) const {
    const Chunk* chunk = chunks_[slot / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[slot % kChunk];
  }
  LoopTotals totals;

 private:
  using Chunk = std::array<LimitCounters, kChunk>;
  Chunk* AddChunk(size_t index);

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
};

// The sums that a reader gets.
struct LimitCounts {
  std::array<uint64_t, kOutcomes> outcomes{};  // index: Outcome
  std::array<uint64_t, kOutcomes> degraded{};
  std::array<uint64_t, kOutcomes> shadow{};
  uint64_t saturated = 0;
};

struct TotalCounts {
  uint64_t requests = 0;
  uint64_t unmatched = 0;
  uint64_t invalid = 0;
  uint64_t conflicts = 0;
  uint64_t replayed = 0;
  uint64_t not_replayable = 0;
  uint64_t repeats = 0;
  uint64_t ad_hoc_compiled = 0;
  std::array<uint64_t, kReasons> degraded{};
  uint64_t permits_granted = 0;
  uint64_t permits_released = 0;
  uint64_t permits_renewed = 0;
  uint64_t permits_expired = 0;
  uint64_t permits_unknown = 0;
  uint64_t permits_unavailable = 0;
  uint64_t permits_handed_back = 0;
  uint64_t permits_waiting = 0;
  uint64_t waits_refused = 0;
  uint64_t asked_again = 0;
  uint64_t releases_repeated = 0;
  uint64_t releases_lost = 0;
};

class Metrics {
 public:
  // All ad hoc limits together count here, under the name that their decisions carry.
  static constexpr uint32_t kAdHocSlot = 0;

  Metrics();

  // Counters for one more loop; they live as long as the Metrics.
  LoopCounters& AddLoop() EXCLUDES(mutex_);
  // The slot of a limit, for ever. Fails when kMaxSlots names have been seen.
  Result<uint32_t> Slot(std::string_view domain, std::string_view limit) EXCLUDES(mutex_);

  // Every limit that was ever published, in the order of its first publication.
  using LimitVisitor =
      std::function<void(std::string_view domain, std::string_view limit, const LimitCounts& counts)>;
  void ForEachLimit(const LimitVisitor& visit) const EXCLUDES(mutex_);
  TotalCounts Totals() const EXCLUDES(mutex_);

 private:
  struct Name {
    std::string domain;
    std::string limit;
  };
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<LoopCounters>> loops_ GUARDED_BY(mutex_);
  std::vector<Name> names_ GUARDED_BY(mutex_);  // by slot
  std::unordered_map<std::string, uint32_t> slots_
      GUARDED_BY(mutex_);  // by "domain/limit"; names have no slash
};

}  // namespace penstock::service
