// The memory engine: buckets in a sharded flat table of this process, decided inline. Nothing to install, nothing to
// wait for: Decide hands every group to its sink before it returns.
//
// What it promises: at most `max_keys` buckets at any time; when all are in use a request that needs one more is
// answered kUnavailable with Reason::kFull, and only buckets that are the same as absent are ever dropped. A bucket of
// a token bucket or fixed window takes one slot of 32 bytes. Deadlines are not looked at: no decision waits.
//
// Thread contract: every method may be called from any thread. LoadSnapshot comes before the first session, Register
// or BindAdHoc. Sessions may outlive neither the engine nor the clock; bindings (and so policies) may outlive both.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace penstock::engine {

class BucketTable;
class ParamTable;
class Registry;
class RequestIds;

struct MemoryOptions {
  // Buckets at most; 48 bytes each when filled with token buckets or fixed windows.
  uint64_t max_keys = 10'000'000;
  // A power of two, 1 to 4096. More shards: fewer waits between threads, shorter pauses when one grows, 4 KiB each.
  size_t shards = 256;
  // Verdicts kept for request ids, over all ids; about 200 bytes each.
  size_t max_request_verdicts = 1'000'000;
  // Different parameters in use at a time (those of policies and of ad hoc callers).
  uint32_t max_params = 1u << 20;
  // The secret of the names' hash; random when not given. A snapshot brings its own.
  std::optional<HashKey::Seed> hash_seed{};
};

class MemoryEngine final : public Engine {
 public:
  // The clock must outlive the engine.
  MemoryEngine(const MemoryOptions& options, const Clock& clock);
  ~MemoryEngine() override;

  std::string_view name() const override { return "memory"; }
  std::unique_ptr<EngineSession> OpenLoop(const LoopParts& parts) override;
  // The same for a caller without an event loop: nothing is ever posted or scheduled, and so nobody who waits for a
  // permit is woken.
  std::unique_ptr<EngineSession> OpenSession();
  Result<void> CanHold(const core::LimitParams&) const override { return {}; }
  bool CanHoldPermits() const override { return true; }
  bool ready() const override { return true; }
  EngineStats stats() const override;

  // Writes all state to the file, replacing it by a rename once everything is on the disk. Runs beside decisions:
  // a shard is held only while it is copied. One save at a time; a second waits for the first.
  Result<void> SaveSnapshot(const std::string& path);
  // Takes the state of the file over. kNotFound: there is none. Any other error names file, offset and what is wrong
  // (damaged, cut short, of a newer layout, or more keys than max_keys); the engine must then not be used.
  Result<void> LoadSnapshot(const std::string& path);
  // The same from memory, as the fuzz target and tests do it; `name` stands for the file in errors.
  Result<void> LoadSnapshotBytes(std::string_view bytes, const std::string& name);

 private:
  friend class MemorySession;
  friend class SnapshotReader;
  friend class SnapshotWriter;

  struct Counters {
    std::atomic<uint64_t> refused_params{0};  // because the table of parameters was full
  };

  // Within what slots can hold, with room for the longest window ahead (until the year 2112).
  EngineTime Now() const {
    constexpr int64_t kLatest = int64_t{1} << 52;
    const int64_t now_us = clock_.Now().us;
    return {now_us < 0 ? 0 : now_us > kLatest ? kLatest : now_us};
  }

  const MemoryOptions options_;
  const Clock& clock_;
  HashKey hash_key_;             // constant from the first session on
  const EngineTime started_at_;  // what was granted before may be known here (a snapshot), or not
  const std::shared_ptr<ParamTable> params_;
  const std::unique_ptr<BucketTable> table_;
  const std::unique_ptr<RequestIds> ids_;
  const std::unique_ptr<Registry> registry_;
  Counters counters_;
  Mutex save_mutex_;  // one save at a time
};

}  // namespace penstock::engine
