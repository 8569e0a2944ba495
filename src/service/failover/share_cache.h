// The share limits that one loop made: bound to the local engine, one for the same identity, parameters and fleet.
//
// Thread contract: one event loop's thread; the shares themselves are immutable and may be read by any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/fleet.h"

namespace penstock::service {

struct Share {
  // The limit under the share's parameters, bound to the local engine.
  core::Limit limit;
  // An ad hoc limit as it was asked, bound to the engine: whoever made it may let it go before all is reported.
  std::unique_ptr<core::Limit> ad_hoc;
  uint32_t nodes = 1;
};

class ShareCache {
 public:
  static constexpr size_t kMaxShares = 4'096;  // beyond, all are forgotten and made anew

  ShareCache(engine::EngineSession& remote, engine::EngineSession& local) : remote_(remote), local_(local) {}

  // `identity` is the hash of the limit's. Null: the node has no share of it.
  std::shared_ptr<const Share> Find(const core::Limit& limit, const Hash128& identity,
                                    const engine::Fleet& fleet);

 private:
  struct Key {
    Hash128 identity;
    core::LimitParams params;
    uint32_t nodes = 0;
    uint32_t index = 0;
    bool ad_hoc = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hasher {
    size_t operator()(const Key& key) const {
      return key.identity.low ^ static_cast<uint64_t>(key.params.capacity) * 0x9e3779b97f4a7c15u ^
             static_cast<uint64_t>(key.params.period.count) ^ key.nodes;
    }
  };
  std::shared_ptr<const Share> Make(const core::Limit& limit, const engine::Fleet& fleet, bool& keep);

  engine::EngineSession& remote_;
  engine::EngineSession& local_;
  std::unordered_map<Key, std::shared_ptr<const Share>, Hasher> shares_;
};

}  // namespace penstock::service
