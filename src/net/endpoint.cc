#include "net/endpoint.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

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
