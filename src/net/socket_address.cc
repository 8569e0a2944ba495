#include "net/socket_address.h"

#include <cstring>
#include <span>
#include <string>

namespace penstock::net {

SocketAddress SocketAddress::Of(const IpAddress& address, uint16_t port) {
  SocketAddress result;
  std::string text;
  address.AppendText(text);
  if (address.is_v4()) {
    auto* in = reinterpret_cast<sockaddr_in*>(&result.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    ::inet_pton(AF_INET, text.c_str(), &in->sin_addr);
    result.length = sizeof(sockaddr_in);
  } else {
    auto* in = reinterpret_cast<sockaddr_in6*>(&result.storage);
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(port);
    ::inet_pton(AF_INET6, text.c_str(), &in->sin6_addr);
    result.length = sizeof(sockaddr_in6);
  }
  return result;
}

uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

std::optional<IpAddress> SocketAddress::address() const {
  if (storage.ss_family == AF_INET) {
    return IpAddress::V4(ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&storage);
    return IpAddress::V6(std::span<const unsigned char, 16>(in->sin6_addr.s6_addr, 16));
  }
  return std::nullopt;
}

}  // namespace penstock::net
