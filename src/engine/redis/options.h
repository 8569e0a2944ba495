// How to reach a Redis or Valkey: what an engine URL says, and the bounds of the connections.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dialer.h"
#include "base/result.h"
#include "base/time.h"

namespace penstock::engine::redis {

enum class TopologyKind : uint8_t { kSingle, kSentinel, kCluster };

struct Options {
  TopologyKind topology = TopologyKind::kSingle;
  std::vector<DialTarget> seeds;  // the server; or the sentinels; or some nodes of the cluster. Not empty
  std::string master_name;        // Sentinel
  std::string user;               // of the servers; empty: the default user
  std::string password;
  std::string sentinel_user;
  std::string sentinel_password;
  int64_t database = 0;
  std::string prefix = "pen:";
  // Put before the body of every script, for tests that move the engine's clock. Empty in every shipped program.
  std::string script_prelude;

  size_t max_in_flight = 16'384;  // exchanges of one link, sent or queued
  Micros connect_timeout = Seconds(1);
  Micros backoff_min = Millis(10);  // between two attempts to connect, or two probes; doubles, with jitter
  Micros backoff_max = Millis(500);
  int breaker_failures = 5;  // time-outs in a row that open the breaker; a lost connection opens it at once
};

// redis://user:pw@host:6379/0  rediss://…  redis+sentinel://s1,s2:26380/mymaster/0  redis+cluster://h1,h2:7001
// unix:///run/redis.sock?db=0  (and rediss+sentinel, rediss+cluster). Query: ca, cert, key, name (TLS files and the
// name to expect), sentinel_user, sentinel_password, db.
Result<Options> ParseUrl(std::string_view url);

}  // namespace penstock::engine::redis
