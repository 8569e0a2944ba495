// sockaddr and IpAddress, there and back. Internal to net.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "base/address.h"

namespace penstock::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  static SocketAddress Of(const IpAddress& address, uint16_t port);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  uint16_t port() const;
  // None for a family that has no IP address.
  std::optional<IpAddress> address() const;
};

}  // namespace penstock::net
