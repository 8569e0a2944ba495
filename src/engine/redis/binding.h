// What the Redis engine keeps beside a limit: its bytes for the scripts and the beginning of its buckets' keys.
#pragma once

#include <string_view>

#include "core/limit.h"
#include "engine/redis/keys.h"
#include "engine/redis/packed_limit.h"

namespace penstock::engine::redis {

class RedisBinding final : public core::LimitBinding {
 public:
  // After the limit has got its version.
  RedisBinding(const core::Limit& limit, std::string_view prefix) : packed(limit), keys(prefix, limit) {}

  const PackedLimit packed;
  const BucketKeys keys;
};

// Precondition: the limit was bound by a Redis engine.
inline const RedisBinding& BindingOf(const core::Limit& limit) {
  return static_cast<const RedisBinding&>(*limit.binding);
}

}  // namespace penstock::engine::redis
