#include "net/endpoint.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/bytes.h"
#include "net/limits.h"
#include "net/socket_address.h"

namespace penstock::net {
namespace {

tl::unexpected<Error> SystemError(const Endpoint& endpoint, std::string_view what, int error) {
  std::string message = "cannot listen on " + endpoint.Text() + ": ";
  message.append(what).append(": ").append(std::strerror(error));
  return Fail(error == EADDRINUSE ? ErrorKind::kConflict : ErrorKind::kUnavailable, std::move(message));
}

int NewSocket(const Endpoint& endpoint) {
  return ::socket(endpoint.address.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                  0);
}

bool SetOption(int fd, int option) {
  const int on = 1;
  return ::setsockopt(fd, SOL_SOCKET, option, &on, sizeof on) == 0;
}

bool Bind(int fd, const Endpoint& endpoint) {
  const SocketAddress address = SocketAddress::Of(endpoint.address, endpoint.port);
  return ::bind(fd, address.get(), address.length) == 0;
}

}  // namespace

bool Endpoint::IsLoopback() const {
  static const Cidr v4 = *Cidr::Parse("127.0.0.0/8");
  static const Cidr v6 = *Cidr::Parse("::1/128");
  return v4.Contains(address) || v6.Contains(address);
}

std::string Endpoint::Text() const {
  std::string text;
  if (!address.is_v4()) text += '[';
  address.AppendText(text);
  if (!address.is_v4()) text += ']';
  text += ':';
  AppendInt(text, port);
  return text;
}

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    std::string message = "'";
    message.append(text).append("' is no address to listen on: ").append(why);
    return Invalid(std::move(message));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("a port is missing, as in 127.0.0.1:8080");
  std::string_view host = text.substr(0, colon);
  const std::optional<int64_t> port = ParseInt(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65'535) return wrong("the port must be a number from 0 to 65535");
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host == "*") host = "0.0.0.0";
  if (host == "localhost") host = "127.0.0.1";
  const std::optional<IpAddress> address = ParseAddress(host);
  if (!address) return wrong("the host must be an IP address, localhost or *");
  if (address->is_v4() == brackets) return wrong("an IPv6 address, and only that, stands in brackets");
  return Endpoint{*address, static_cast<uint16_t>(*port)};
}

Result<int> OpenListeningSocket(const Endpoint& endpoint) {
  const int fd = NewSocket(endpoint);
  if (fd < 0) return SystemError(endpoint, "socket", errno);
  // Both families would otherwise meet on [::]:port; a dual-stack socket is written as two endpoints here.
  const int on = 1;
  if (!endpoint.address.is_v4()) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const char* failed = nullptr;
  if (!SetOption(fd, SO_REUSEADDR) || !SetOption(fd, SO_REUSEPORT)) {
    failed = "setsockopt";
  } else if (!Bind(fd, endpoint)) {
    failed = "bind";
  } else if (::listen(fd, kBacklog) != 0) {
    failed = "listen";
  }
  if (failed == nullptr) return fd;
  const int error = errno;
  ::close(fd);
  return SystemError(endpoint, failed, error);
}

Result<Endpoint> ReserveEndpoint(const Endpoint& endpoint) {
  const int fd = NewSocket(endpoint);
  if (fd < 0) return SystemError(endpoint, "socket", errno);
  // A fixed port must be ours although old connections of it linger; a free one must not be anybody's.
  if (endpoint.port != 0) SetOption(fd, SO_REUSEADDR);
  Endpoint reserved = endpoint;
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (!Bind(fd, endpoint) || ::getsockname(fd, bound.get(), &bound.length) != 0) {
    const int error = errno;
    ::close(fd);
    return SystemError(endpoint, "bind", error);
  }
  reserved.port = bound.port();
  ::close(fd);
  return reserved;
}

}  // namespace penstock::net
