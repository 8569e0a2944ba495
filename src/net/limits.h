// The bounds of everything a peer can make net hold or wait for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace penstock::net {

struct Limits {
  // Connections of one listener over all event loops. At the bound accepting pauses; peers wait in the backlog.
  uint32_t max_connections = 10'000;
  // Time-outs; 0 = none. They are looked at every kSweep, so they may come that much late.
  Micros idle = Seconds(75);     // between two requests
  Micros head = Seconds(10);     // from a request's first byte to the end of its head (RESP: of the command)
  Micros body = Seconds(30);     // from there to the end of the body
  Micros stalled = Seconds(30);  // output is pending and the peer takes none of it
  Micros handshake = Seconds(10);  // TLS
};

// A connection whose peer has this much to take is not read from until it took it.
inline constexpr size_t kMaxPendingOutput = 1024 * 1024;
// New connections taken in one turn of the loop.
inline constexpr int kAcceptsPerTurn = 64;
inline constexpr int kBacklog = 4096;
inline constexpr Micros kSweep = Millis(250);
// After EMFILE and the like, and at max_connections.
inline constexpr Micros kAcceptPause = Millis(100);
// After our last byte we wait this long, and for this much, for the peer to close, so that a reset does not destroy
// what it has not read yet.
inline constexpr Micros kLinger = Seconds(2);
inline constexpr size_t kLingerBytes = 4 * 1024 * 1024;

}  // namespace penstock::net
