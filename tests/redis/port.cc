#include "redis/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <random>

#include "redis/fixture_error.h"

namespace penstock::fixtures {
namespace {

constexpr int kFirst = 20'000;
constexpr int kLast = 32'000;

int TakeName(int number) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw FixtureError("no socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "penstock-port-%d", number);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  close(fd);
  return -1;
}

bool IsFree(int number) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(number));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return free;
}

}  // namespace

Port::Port() {
  const auto start = static_cast<int>(std::random_device{}() % (kLast - kFirst));
  for (int i = 0; i < kLast - kFirst; ++i) {
    const int number = kFirst + (start + i) % (kLast - kFirst);
    lock_ = TakeName(number);
    if (lock_ < 0) continue;
    if (IsFree(number)) {
      number_ = static_cast<uint16_t>(number);
      return;
    }
    close(lock_);
  }
  throw FixtureError("no port is free");
}

Port::~Port() {
  if (lock_ >= 0) close(lock_);
}

}  // namespace penstock::fixtures
