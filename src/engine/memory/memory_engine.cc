#include "engine/memory/memory_engine.h"

#include <algorithm>
#include <bit>

#include "engine/memory/bucket_table.h"
#include "engine/memory/memory_session.h"
#include "engine/memory/registry.h"
#include "engine/memory/request_ids.h"

namespace penstock::engine {
namespace {

size_t ShardsOf(const MemoryOptions& options) {
  return std::bit_floor(std::clamp<size_t>(options.shards, 1, BucketTable::kMaxShards));
}

}  // namespace

MemoryEngine::MemoryEngine(const MemoryOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      hash_key_(options.hash_seed ? HashKey(*options.hash_seed) : HashKey::Random()),
      started_at_(Now()),
      params_(std::make_shared<ParamTable>(std::min(options.max_params, ParamTable::kMaxEntries))),
      table_(std::make_unique<BucketTable>(ShardsOf(options), options.max_keys, params_)),
      ids_(std::make_unique<RequestIds>(options.max_request_verdicts)),
      registry_(std::make_unique<Registry>([this] { return Now(); })) {}

MemoryEngine::~MemoryEngine() = default;

std::unique_ptr<EngineSession> MemoryEngine::OpenLoop(const LoopParts& parts) {
  return std::make_unique<MemorySession>(*this, &parts.executor);
}

std::unique_ptr<EngineSession> MemoryEngine::OpenSession() {
  return std::make_unique<MemorySession>(*this, nullptr);
}

EngineStats MemoryEngine::stats() const NO_THREAD_SAFETY_ANALYSIS {
  EngineStats stats;
  stats.refused_full = counters_.refused_params.load(std::memory_order_relaxed);
  for (size_t i = 0; i < table_->shard_count(); ++i) {
    Shard& shard = table_->shard(i);
    shard.lock.Lock();
    const ShardCounters counters = shard.counters;
    shard.lock.Unlock();
    stats.evictions += counters.evictions;
    stats.refused_full += counters.refused_full;
    stats.saturated += counters.saturated;
    stats.stale += counters.stale;
    stats.reclaimed_permits += static_cast<uint64_t>(std::max<int64_t>(counters.reclaimed, 0));
  }
  stats.keys = table_->keys();
  stats.max_keys = table_->max_keys();
  stats.request_ids = ids_->size();
  return stats;
}

}  // namespace penstock::engine
