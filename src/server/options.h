// What `serve` is told by its command line, and the bounds of its connections. What the policy file says of engine and
// listeners is read at the start (config/settings.h). Plain data.
#pragma once

#include <string>

#include "base/time.h"
#include "config/settings.h"
#include "net/limits.h"

namespace penstock::server {

struct Options {
  std::string policy;             // file or directory; empty: ad hoc limits only
  config::Flags flags;            // what beats the file
  bool insecure = false;          // listen beyond loopback without a token
  bool discard_snapshot = false;  // begin empty where the snapshot is damaged or of a newer version
  net::Limits http_limits;
  net::Limits resp_limits{.idle = Micros{0}};  // Redis clients keep idle connections and expect them to live
  Micros drain = Seconds(5);                   // at shutdown, for what is in flight
};

}  // namespace penstock::server
