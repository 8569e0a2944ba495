#include "redis/redis_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "redis/fixture_error.h"

namespace penstock::fixtures {
namespace {

int Connect(int family, const sockaddr* address, socklen_t size, std::chrono::milliseconds patience) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw FixtureError("no socket");
  const int yes = 1;
  if (family == AF_INET) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const timeval wait{.tv_sec = patience.count() / 1'000, .tv_usec = patience.count() % 1'000 * 1'000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (connect(fd, address, size) == 0) return fd;
  const std::string why = std::strerror(errno);
  close(fd);
  throw FixtureError("connect: " + why);
}

// Copies the node at `index` with all below it; moves `index` behind it.
ReplyValue Own(std::span<const resp::ReplyNode> nodes, size_t& index) {
  const resp::ReplyNode& node = nodes[index++];
  ReplyValue value{node.type, node.integer, std::string(node.text), {}};
  value.items.reserve(node.children);
  while (index < node.end) value.items.push_back(Own(nodes, index));
  return value;
}

}  // namespace

std::string ReplyValue::Text() const {
  if (is_null()) return "nil";
  if (type == resp::ReplyType::kInteger) return std::to_string(integer);
  if (items.empty()) return text;
  std::string out = "[";
  for (const ReplyValue& item : items) out += (out.size() > 1 ? ", " : "") + item.Text();
  return out + "]";
}

RedisClient RedisClient::Tcp(uint16_t port, std::chrono::milliseconds patience) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return RedisClient(Connect(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof address, patience));
}

RedisClient RedisClient::Unix(const std::string& path, std::chrono::milliseconds patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw FixtureError("too long for a socket: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return RedisClient(Connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, patience));
}

RedisClient::RedisClient(RedisClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      received_(std::move(other.received_)),
      consumed_(std::exchange(other.consumed_, 0)) {}

RedisClient& RedisClient::operator=(RedisClient&& other) noexcept {
  std::swap(fd_, other.fd_);
  received_ = std::move(other.received_);
  consumed_ = std::exchange(other.consumed_, 0);
  parser_.Reset();
  return *this;
}

RedisClient::~RedisClient() {
  if (fd_ >= 0) close(fd_);
}

std::string Command(std::span<const std::string> parts) {
  std::string bytes = "*" + std::to_string(parts.size()) + "\r\n";
  for (const std::string& part : parts) {
    bytes += "$" + std::to_string(part.size()) + "\r\n";
    bytes += part;
    bytes += "\r\n";
  }
  return bytes;
}

ReplyValue RedisClient::Run(const std::vector<std::string>& parts) {
  Send(Command(parts));
  return Receive();
}

ReplyValue RedisClient::Good(ReplyValue reply) {
  if (reply.is_error()) throw FixtureError("answered: " + reply.text);
  return reply;
}

void RedisClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw FixtureError("send: " + std::string(std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

ReplyValue RedisClient::Receive() {
  const std::span<const resp::ReplyNode> nodes = ReceiveNodes();
  size_t index = 0;
  return Own(nodes, index);
}

std::span<const resp::ReplyNode> RedisClient::ReceiveNodes() {
  constexpr size_t kRead = 64 * 1'024;
  for (;;) {
    const resp::ParseResult result = parser_.Parse(std::string_view(received_).substr(consumed_));
    consumed_ += result.consumed;
    if (result.status == resp::ParseStatus::kDone) return parser_.nodes();
    if (result.status == resp::ParseStatus::kError) {
      throw FixtureError("no reply in RESP: " + std::string(parser_.error()));
    }
    received_.erase(0, std::exchange(consumed_, 0));
    const size_t size = received_.size();
    received_.resize(size + kRead);
    const ssize_t count = recv(fd_, received_.data() + size, kRead, 0);
    const int error = errno;
    received_.resize(size + static_cast<size_t>(count > 0 ? count : 0));
    if (count < 0 && error == EINTR) continue;
    if (count == 0) throw FixtureError("the server closed the connection");
    if (count < 0) throw FixtureError("no reply: " + std::string(std::strerror(error)));
  }
}

}  // namespace penstock::fixtures
