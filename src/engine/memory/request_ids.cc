#include "engine/memory/request_ids.h"

#include <algorithm>
#include <climits>

namespace penstock::engine {
namespace {

constexpr auto kLater = [](const auto& a, const auto& b) { return a.at > b.at; };

}  // namespace

IdRecord* RequestIds::Find(const Hash128& id, EngineTime now) {
  Shard& shard = ShardOf(id);
  const auto it = shard.records.find(id);
  if (it == shard.records.end() || it->second.expires <= now) return nullptr;
  return &it->second;
}

IdRecord* RequestIds::Insert(const Hash128& id, size_t operations, EngineTime expires, EngineTime now) {
  Shard& shard = ShardOf(id);
  DropExpired(shard, now, kDropsPerInsert);
  // Only an expired record can stand in the way, be it of the same id.
  if (shard.operations + operations > max_per_shard_ || shard.records.contains(id)) {
    DropExpired(shard, now, INT_MAX);
  }
  if (shard.operations + operations > max_per_shard_) return nullptr;
  shard.operations += operations;
  shard.expiries.push_back({expires, id});
  std::push_heap(shard.expiries.begin(), shard.expiries.end(), kLater);
  IdRecord& record = shard.records[id];
  record.expires = expires;
  record.operations.resize(operations);
  return &record;
}

void RequestIds::DropExpired(Shard& shard, EngineTime now, int most) {
  for (; most > 0 && !shard.expiries.empty() && shard.expiries.front().at <= now; --most) {
    const auto it = shard.records.find(shard.expiries.front().id);
    shard.operations -= it->second.operations.size();
    shard.records.erase(it);
    std::pop_heap(shard.expiries.begin(), shard.expiries.end(), kLater);
    shard.expiries.pop_back();
  }
}

size_t RequestIds::size() const NO_THREAD_SAFETY_ANALYSIS {
  size_t size = 0;
  for (const Shard& shard : shards_) {
    shard.lock.Lock();
    size += shard.records.size();
    shard.lock.Unlock();
  }
  return size;
}

}  // namespace penstock::engine
