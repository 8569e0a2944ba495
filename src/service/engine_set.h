// The engine that settings name, with what belongs to it: the memory engine alone, or a store that the fleet shares
// and the memory engine that stands in for it while it is away. The server and the library both open theirs here.
//
// Thread contract: opened and destroyed while no event loop runs; what it gives has contracts of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/memory/memory_engine.h"
#include "service/failover/node.h"

namespace penstock::engine::redis {
class RedisEngine;
}

namespace penstock::service {

class FailoverEngine;

struct EngineSettings {
  std::string url = "memory:";
  std::string prefix = "pen:";  // stands before every key of a store
  uint64_t max_keys = 10'000'000;
  int64_t fleet_size = 0;  // nodes that share a limit while the store is away; 0: by heartbeat
};

class EngineSet {
 public:
  // The clock outlives the set.
  static Result<std::unique_ptr<EngineSet>> Open(const EngineSettings& settings, const Clock& clock);
  ~EngineSet();

  engine::Engine& engine();
  // Decisions take a round trip, and so have a deadline.
  bool remote() const { return redis_ != nullptr; }
  // Null where there is none.
  const engine::redis::RedisEngine* redis() const { return redis_.get(); }
  engine::MemoryEngine& memory() { return *memory_; }
  // Null where no store can fail.
  const FailoverEngine* failover() const { return failover_.get(); }
  // For the log: whether this node has begun or ceased to decide by itself since the last call; else empty.
  std::string TakeNews();
  // A new, empty one in the place of a memory engine whose snapshot could only be read in part. Before it was used.
  void ReplaceMemory(const EngineSettings& settings, const Clock& clock);

 private:
  EngineSet() = default;

  // The engine itself; or what stands in for the store, by the store's time as this node knows it.
  std::unique_ptr<EngineClock> store_clock_;
  std::unique_ptr<engine::MemoryEngine> memory_;
  std::unique_ptr<engine::redis::RedisEngine> redis_;
  std::unique_ptr<FailoverEngine> failover_;
};

}  // namespace penstock::service
