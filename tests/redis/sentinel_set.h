// A master with replicas, watched by three sentinels that know each other from the start, so that a failover can begin
// at once. Timings are short: a dead master is replaced within about two seconds.
//
// The sentinels call the set "main". Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "redis/redis_server.h"

namespace penstock::fixtures {

class SentinelSet {
 public:
  static constexpr const char* kName = "main";

  // `lines` go to every server, not to the sentinels.
  explicit SentinelSet(int replicas = 1, std::vector<std::string> lines = {});

  // Replaces the master by order while it is alive; waits until every sentinel names the new one and it is a master.
  // The old one becomes its replica.
  void Failover();
  // The same by death: kills the master and waits. Start() of the killed one lets it come back as a replica.
  RedisServer& KillMaster();

  RedisServer& master();  // as it is now, by the servers' own word
  RedisServer& server(size_t i) { return *servers_.at(i); }
  size_t servers() const { return servers_.size(); }
  RedisServer& sentinel(size_t i) { return *sentinels_.at(i); }
  size_t sentinels() const { return sentinels_.size(); }
  // Waits until every living replica follows the master and has all of its data.
  void WaitReplicas();
  std::string Url()
      const;  // redis+sentinel://USER:PASSWORD@127.0.0.1:P1,…/main?sentinel_user=…&sentinel_password=…

 private:
  // Whether all living sentinels name one server other than `old`, and it is a master.
  bool Replaced(const RedisServer& old);
  // Waits until all sentinels name a server other than `old`.
  void WaitReplaced(const RedisServer& old);

  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<RedisServer>> sentinels_;
};

}  // namespace penstock::fixtures
