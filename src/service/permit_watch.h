// Drift: what the engine says of the buckets whose permits this process was asked for, every 15 s, for metrics and
// alerts. The engine keeps a sum of what is held beside the set of its holders; both are read, and where they differ
// (somebody deleted a holder by hand, a bug) the difference is the drift, and the engine takes the set's word.
//
// Ad hoc semaphores are not watched: they have no number of permits of their own, and no name.
//
// Thread contract: PermitWatch::Note and Gauges for any thread; Follow and Stop on the loop whose session it is given.
// PermitNotes belongs to one loop.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace penstock::service {

// The watched buckets of one limit together, as of the last round.
struct PermitGauge {
  std::string domain;
  std::string limit;
  uint64_t buckets = 0;
  uint64_t unasked = 0;    // of these: the engine did not answer, what follows is without them
  uint64_t exhausted = 0;  // … of which nothing is available
  uint64_t above =
      0;  // … of which more is held than the limit: it was lowered, or local grants were reported
  int64_t permits = 0;  // N, summed
  int64_t in_use = 0;
  int64_t available = 0;
  int64_t waiting = 0;
  int64_t drift = 0;         // |sum - set|, summed
  uint64_t drift_total = 0;  // of all rounds since the start
};

class PermitWatch final : private engine::Sink {
 public:
  static constexpr Micros kEvery = Seconds(15);
  static constexpr Micros kTimeout = Seconds(1);  // of one question
  static constexpr size_t kMaxBuckets = 10'000;   // watched at once; others are not noted
  static constexpr size_t kBucketsPerCall = 64;
  static constexpr int kIdleRounds = 4;  // without a permit in use or an asking: no longer watched

  PermitWatch() = default;
  ~PermitWatch() override;

  // A permit of this bucket was granted or refused under this limit, which `policy` keeps: its N is what counts from now on.
  void Note(const core::Limit& limit, std::span<const std::string_view> key, const Hash128& bucket,
            const std::shared_ptr<const void>& policy) EXCLUDES(mutex_);
  uint64_t round() const { return round_.load(std::memory_order_relaxed); }

  // The session and what belongs to it must live until Stop.
  void Follow(engine::EngineSession& session, Timer& timer, const Clock& clock, Micros every = kEvery);
  void Stop();

  std::vector<PermitGauge> Gauges() const EXCLUDES(mutex_);

 private:
  struct Hasher {
    size_t operator()(const Hash128& name) const { return name.low; }
  };
  struct Bucket {
    const core::Limit* limit = nullptr;
    std::shared_ptr<const void> policy;
    std::vector<std::string> key;
    int idle_rounds = 0;
    bool answered = false;  // in this round
    int64_t in_use = 0;
    int64_t held = 0;
    int64_t waiting = 0;
  };

  void Decided(engine::Batch& batch, engine::Group& group) noexcept override;
  void Turn() EXCLUDES(mutex_);
  // A call after the other, so that a round of many buckets is no burst.
  void Continue();
  void Ask(size_t count) EXCLUDES(mutex_);
  void Finish() EXCLUDES(mutex_);
  static void Add(const Bucket& bucket, PermitGauge& gauge);
  void Schedule(Micros after, void (PermitWatch::*task)());

  std::atomic<uint64_t> round_{0};
  mutable Mutex mutex_;
  std::unordered_map<Hash128, Bucket, Hasher> buckets_ GUARDED_BY(mutex_);
  std::vector<PermitGauge> gauges_ GUARDED_BY(mutex_);

  // The loop's.
  engine::EngineSession* session_ = nullptr;
  Timer* timer_ = nullptr;
  const Clock* clock_ = nullptr;
  Micros every_{};
  Timer::Id timer_id_ = 0;
  std::vector<Hash128> names_;  // of the round under way
  size_t asked_ = 0;            // of names_: answered, or not
  size_t open_ = 0;             // of the call under way
  bool inside_ = false;         // Ask, where the engine answers inline
  engine::Batch batch_;
  std::vector<engine::HolderList> lists_;  // by the group's token
};

// In front of the watch, on a loop: most askings are of a bucket that was noted in this round already.
class PermitNotes {
 public:
  explicit PermitNotes(PermitWatch* watch) : watch_(watch) {}

  void Note(const core::Limit& limit, std::span<const std::string_view> key, const Hash128& bucket,
            const std::shared_ptr<const void>& policy) {
    if (watch_ == nullptr) return;
    if (const uint64_t round = watch_->round(); round != round_) {
      noted_.fill({});
      round_ = round;
    }
    Hash128& place = noted_[bucket.low % noted_.size()];
    if (place == bucket) return;
    place = bucket;
    watch_->Note(limit, key, bucket, policy);
  }

 private:
  PermitWatch* const watch_;
  uint64_t round_ = 0;
  std::array<Hash128, 256> noted_{};
};

}  // namespace penstock::service
