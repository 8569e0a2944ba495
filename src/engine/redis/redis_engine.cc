#include "engine/redis/redis_engine.h"

#include <utility>

#include "engine/redis/redis_session.h"

namespace penstock::engine::redis {

RedisEngine::RedisEngine(Options options, const Clock& clock)
    : options_(std::move(options)),
      scripts_(ScriptsWith(options_.script_prelude)),
      clock_(clock),
      hints_(options_.prefix) {}
RedisEngine::~RedisEngine() = default;

std::unique_ptr<EngineSession> RedisEngine::OpenLoop(const LoopParts& parts) {
  return std::make_unique<RedisSession>(*this, parts);
}

Result<void> RedisEngine::CanHold(const core::LimitParams&) const { return {}; }

EngineStats RedisEngine::stats() const {
  EngineStats stats;
  stats.refused_full = counters_.full.load(std::memory_order_relaxed);
  stats.saturated = counters_.saturated.load(std::memory_order_relaxed);
  stats.stale = counters_.stale.load(std::memory_order_relaxed);
  stats.reclaimed_permits = counters_.reclaimed.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace penstock::engine::redis
