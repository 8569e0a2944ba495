// Where to listen: an address and a port, e.g. 127.0.0.1:8080, [::1]:0, localhost:6380, *:8080. Names other than
// localhost are not looked up: a server that waits for DNS before it listens is one more thing that fails at night.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/result.h"

namespace penstock::net {

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;  // 0 takes a free one

  // Only this machine can connect.
  bool IsLoopback() const;
  // 127.0.0.1:8080, [::1]:8080
  std::string Text() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// `*` and `*:port` mean 0.0.0.0.
Result<Endpoint> ParseEndpoint(std::string_view text);

// A listening socket for the endpoint: non-blocking, close-on-exec, shared by SO_REUSEPORT. The caller owns it.
Result<int> OpenListeningSocket(const Endpoint& endpoint);

// Fails if anybody listens there already (which SO_REUSEPORT alone would hide from us when it is the same user), and
// fills in a free port for 0.
Result<Endpoint> ReserveEndpoint(const Endpoint& endpoint);

}  // namespace penstock::net
