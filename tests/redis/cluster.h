// A Redis Cluster of six nodes: masters 0, 1, 2 with a third of the slots each, and one replica a master, made by
// CLUSTER commands. A node that is dead for a second is replaced.
//
// Node numbers are of this object and do not change with the roles. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "redis/redis_server.h"

namespace penstock::fixtures {

class Cluster {
 public:
  static constexpr size_t kMasters = 3;
  static constexpr size_t kNodes = 6;
  static constexpr int kSlots = 16'384;

  explicit Cluster(std::vector<std::string> lines = {});

  RedisServer& node(size_t i) { return *nodes_.at(i); }
  // The node that serves the slot, by its own word.
  size_t Owner(int slot);
  // The replica of a master, and the other way round.
  size_t ReplicaOf(size_t master);

  // The master's replica takes over, the master alive and agreeing. Waits; says who is master now.
  size_t Failover(size_t master);
  // Kills the master and waits until its replica has taken over; says which.
  size_t KillMaster(size_t master);

  // A migration of a slot in its steps. Between Begin and End `from` answers ASK for keys that it has not (or not any
  // more), and for several keys of which it has some TRYAGAIN.
  void BeginMigration(int slot, size_t from, size_t to);
  // Moves up to `count` of the slot's keys; says how many.
  size_t MoveKeys(int slot, size_t from, size_t to, size_t count);
  void EndMigration(int slot, size_t to);
  // All of it.
  void MigrateSlot(int slot, size_t from, size_t to);

  // Until every living node says that the cluster is well, and replicas follow.
  void WaitOk();
  std::string Url() const;  // redis+cluster://USER:PASSWORD@127.0.0.1:P1,…

 private:
  void Meet();
  const std::string& IdOf(size_t i) const { return ids_[i]; }
  void WaitMaster(size_t node);

  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::string> ids_;
};

// The slot of a key: CRC16 of its {part}.
int SlotOf(std::string_view key);

}  // namespace penstock::fixtures
