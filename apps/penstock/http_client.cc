#include "http_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "http/request_writer.h"
#include "http/response_parser.h"
#include "net/socket_address.h"

namespace penstock::app {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kDefaultPort = ":8080";
constexpr size_t kMaxReplyBytes = 16 * 1024 * 1024;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

tl::unexpected<Error> Unreachable(const ServerUrl& server, std::string_view why) {
  std::string message = "cannot ask the server at " + server.endpoint.Text() + ": ";
  message += why;
  return Fail(ErrorKind::kUnavailable, std::move(message));
}

// What a call waits for: its socket, until its time is over or somebody ends it.
class Patience {
 public:
  Patience(const Socket& socket, const HttpCall& call)
      : socket_(socket), cancel_fd_(call.cancel_fd), ends_at_(Clock::now() + Milliseconds(call.timeout_ms)) {}

  // Empty once the socket is ready, else why it will not be waited for.
  std::string_view Await(short events) const {
    for (;;) {
      const auto left = std::chrono::ceil<Milliseconds>(ends_at_ - Clock::now()).count();
      if (left <= 0) return "it does not answer";
      std::array<pollfd, 2> fds{pollfd{socket_.fd(), events, 0}, pollfd{cancel_fd_, POLLIN, 0}};
      const int n = ::poll(fds.data(), fds.size(), static_cast<int>(left));
      if (n < 0 && errno != EINTR) return std::strerror(errno);
      if (n > 0 && fds[1].revents != 0) return "the call was ended";
      if (n > 0 && fds[0].revents != 0) return {};
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  const Socket& socket_;
  const int cancel_fd_;
  const Clock::time_point ends_at_;
};

bool MustWait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINPROGRESS; }

// As Await says it.
std::string_view Connect(const Socket& socket, const Endpoint& endpoint, const Patience& patience) {
  const net::SocketAddress address = net::SocketAddress::Of(endpoint.address, endpoint.port);
  if (::connect(socket.fd(), address.get(), address.length) == 0) return {};
  if (!MustWait(errno)) return std::strerror(errno);
  if (const std::string_view why = patience.Await(POLLOUT); !why.empty()) return why;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::string_view{} : std::strerror(error);
}

std::string_view SendAll(const Socket& socket, std::string_view bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
    if (n > 0 || errno == EINTR) continue;
    if (!MustWait(errno)) return std::strerror(errno);
    if (const std::string_view why = patience.Await(POLLOUT); !why.empty()) return why;
  }
  return {};
}

}  // namespace

Result<ServerUrl> ParseServerUrl(std::string_view text) {
  const std::string written(text);
  if (text.starts_with("https://")) {
    return Invalid("'" + written +
                   "': the commands speak plain HTTP only; give an http:// address of the server");
  }
  if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  while (text.ends_with('/')) text.remove_suffix(1);
  std::string host(text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) host += kDefaultPort;
  const Result<Endpoint> endpoint = ParseEndpoint(host);
  if (!endpoint || endpoint->port == 0) {
    return Invalid("'" + written + "' is no address of a server: write it as http://127.0.0.1:8080");
  }
  return ServerUrl{*endpoint, host};
}

Result<HttpReply> Call(const ServerUrl& server, const HttpCall& call) {
  std::string bearer = "Bearer ";
  bearer += call.token;
  std::array<http::Header, 2> headers;
  size_t count = 0;
  if (!call.token.empty()) headers[count++] = {"Authorization", bearer};
  if (!call.if_match.empty()) headers[count++] = {"If-Match", call.if_match};
  http::OutgoingRequest request{.method = call.method, .target = call.target, .host = server.host};
  request.headers = {headers.data(), count};
  request.content_type = "application/json";
  request.body = call.body;
  // Not closed by the server: one that is about to close reads no more, and would not see that a waiter has gone.
  request.keep_alive = true;
  std::string bytes;
  if (!http::AppendRequest(bytes, request))
    return Invalid("the token, or the version, cannot stand in a header");

  const Socket socket(::socket(server.endpoint.address.is_v4() ? AF_INET : AF_INET6,
                               SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return Unreachable(server, std::strerror(errno));
  const Patience patience(socket, call);
  if (const std::string_view why = Connect(socket, server.endpoint, patience); !why.empty())
    return Unreachable(server, why);
  if (const std::string_view why = SendAll(socket, bytes, patience); !why.empty())
    return Unreachable(server, why);
  http::ResponseParser parser;
  std::string input;
  for (;;) {
    if (const std::string_view why = patience.Await(POLLIN); !why.empty()) return Unreachable(server, why);
    std::array<char, 16 * 1024> buffer;
    const ssize_t n = ::recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (n < 0 && (errno == EINTR || MustWait(errno))) continue;
    if (n < 0) return Unreachable(server, std::strerror(errno));
    input.append(buffer.data(), static_cast<size_t>(n));
    const http::ResponseParser::Step step = parser.Parse(input);
    auto status = step.status;
    input.erase(0, status == http::ResponseParser::Status::kNeedMore ? step.consumed : 0);
    if (status == http::ResponseParser::Status::kNeedMore && n == 0) status = parser.Finish();
    if (status == http::ResponseParser::Status::kResponse) {
      return HttpReply{parser.response().status, std::string(parser.response().body)};
    }
    if (status == http::ResponseParser::Status::kError || n == 0 || input.size() > kMaxReplyBytes) {
      return Unreachable(server, "its answer is no HTTP response");
    }
  }
}

}  // namespace penstock::app
