// Where to listen or to connect: an address and a port, e.g. 127.0.0.1:8080, [::1]:0, localhost:6380, *:8080. Names
// other than localhost are not looked up: a server that waits for DNS before it listens is one more thing that fails
// at night.
//
// Thread contract: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/result.h"

namespace penstock {

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;  // 0 takes a free one

  // Only this machine can connect.
  bool IsLoopback() const;
  // 127.0.0.1:8080, [::1]:8080
  std::string Text() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// `ADDRESS:PORT` with an IP address (an IPv6 one in brackets), localhost, or `*` for 0.0.0.0.
Result<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace penstock
