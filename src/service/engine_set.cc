#include "service/engine_set.h"

#include <utility>

#include "engine/redis/keys.h"
#include "engine/redis/redis_engine.h"

namespace penstock::service {

Result<std::unique_ptr<EngineSet>> EngineSet::Open(const EngineSettings& settings, const Clock& clock) {
  std::unique_ptr<EngineSet> set(new EngineSet);
  set->ReplaceMemory(settings, clock);
  if (settings.url == "memory:" || settings.url.empty()) return set;
  Result<engine::redis::Options> options = engine::redis::ParseUrl(settings.url);
  if (!options) return tl::unexpected(std::move(options.error()));
  if (Result<void> fine = engine::redis::CheckPrefix(settings.prefix); !fine) {
    return tl::unexpected(std::move(fine.error()));
  }
  options->prefix = settings.prefix;
  set->redis_ = std::make_unique<engine::redis::RedisEngine>(*std::move(options), clock);
  return set;
}

EngineSet::~EngineSet() = default;

engine::Engine& EngineSet::engine() {
  return redis_ != nullptr ? static_cast<engine::Engine&>(*redis_) : *memory_;
}

void EngineSet::ReplaceMemory(const EngineSettings& settings, const Clock& clock) {
  memory_ =
      std::make_unique<engine::MemoryEngine>(engine::MemoryOptions{.max_keys = settings.max_keys}, clock);
}

}  // namespace penstock::service
