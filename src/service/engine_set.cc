#include "service/engine_set.h"

#include <utility>

#include "engine/redis/keys.h"
#include "engine/redis/redis_engine.h"
#include "service/failover/failover_engine.h"

namespace penstock::service {

Result<std::unique_ptr<EngineSet>> EngineSet::Open(const EngineSettings& settings, const Clock& clock) {
  std::unique_ptr<EngineSet> set(new EngineSet);
  if (settings.url == "memory:" || settings.url.empty()) {
    set->ReplaceMemory(settings, clock);
    return set;
  }
  Result<engine::redis::Options> options = engine::redis::ParseUrl(settings.url);
  if (!options) return tl::unexpected(std::move(options.error()));
  if (Result<void> fine = engine::redis::CheckPrefix(settings.prefix); !fine) {
    return tl::unexpected(std::move(fine.error()));
  }
  options->prefix = settings.prefix;
  set->redis_ = std::make_unique<engine::redis::RedisEngine>(*std::move(options), clock);
  FailoverOptions failover;
  if (settings.fleet_size > 0) failover.fleet_size = static_cast<uint32_t>(settings.fleet_size);
  set->store_clock_ = std::make_unique<EngineClock>(clock);
  failover.clock = set->store_clock_.get();
  set->ReplaceMemory(settings, *set->store_clock_);
  set->failover_ =
      std::make_unique<FailoverEngine>(*set->redis_, *set->memory_, set->redis_->fleet(), clock, failover);
  return set;
}

EngineSet::~EngineSet() = default;

engine::Engine& EngineSet::engine() {
  return failover_ != nullptr ? static_cast<engine::Engine&>(*failover_) : *memory_;
}

std::string EngineSet::TakeNews() { return failover_ != nullptr ? failover_->TakeNews() : std::string(); }

void EngineSet::ReplaceMemory(const EngineSettings& settings, const Clock& clock) {
  memory_ =
      std::make_unique<engine::MemoryEngine>(engine::MemoryOptions{.max_keys = settings.max_keys}, clock);
}

}  // namespace penstock::service
