// A steady load on RESP ports, with every answer's time: what callers see while their store fails.
//
//   fault_load SECONDS RATE KEYS PLAIN_PORT PORT [PORT ...]
//
// Several connections a port, each with one request under way, together RATE requests a second: PEN.CHECK of domain
// `api` for the attributes user = one of KEYS and tenant = t. Beside them as many connections as one port has, at the
// same pace, ask a plain Redis on PLAIN_PORT for PING: what the machine itself makes a caller wait. Prints a line a
// request: when it was sent (microseconds of CLOCK_MONOTONIC, which other programs of the machine read alike), how long
// it took, the key, and what came:
//   A allowed   D denied   a, d the same, decided without the engine   U unavailable   X no answer   P the plain one's
// Used by faults.py.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "resp/reply_parser.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kConnectionsPerPort = 24;
constexpr std::chrono::seconds kPatience{20};  // no answer for so long: it is lost

struct Sample {
  int64_t sent_us = 0;
  int64_t took_us = 0;
  uint32_t key = 0;
  char code = 'X';
};

int64_t Micros(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

int Connect(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const timeval patience{kPatience.count(), 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

char CodeOf(const penstock::resp::ReplyParser& parser) {
  using penstock::resp::ReplyType;
  const auto nodes = parser.nodes();
  if (parser.root().type == ReplyType::kSimple) return 'P';
  if (parser.root().type == ReplyType::kError) return 'U';
  if (parser.root().type != ReplyType::kArray || nodes.size() < 9) return 'X';
  const std::string_view outcome = nodes[2].text;
  const bool degraded = nodes[8].integer != 0;
  if (outcome == "allowed") return degraded ? 'a' : 'A';
  if (outcome == "denied" || outcome == "never") return degraded ? 'd' : 'D';
  return 'U';
}

std::string CheckOf(uint32_t key) {
  const std::string user = "u" + std::to_string(key);
  return "*7\r\n$9\r\nPEN.CHECK\r\n$3\r\napi\r\n$1\r\n2\r\n$6\r\ntenant\r\n$1\r\nt\r\n$4\r\nuser\r\n$" +
         std::to_string(user.size()) + "\r\n" + user + "\r\n";
}

// One request and its reply; X when the connection fails.
char Ask(int fd, const std::string& request) {
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return 'X';
  penstock::resp::ReplyParser parser;
  std::string bytes;
  char buffer[4'096];
  while (true) {
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return 'X';
    bytes.append(buffer, static_cast<size_t>(got));
    const penstock::resp::ParseResult result = parser.Parse(bytes);
    if (result.status == penstock::resp::ParseStatus::kDone) return CodeOf(parser);
    if (result.status == penstock::resp::ParseStatus::kError) return 'X';
  }
}

struct Plan {
  Clock::time_point end;
  Clock::duration interval;  // between two requests of one connection
  uint32_t keys = 1;
  bool plain = false;
};

void Run(const Plan& plan, uint16_t port, uint32_t number, std::vector<Sample>& samples) {
  int fd = Connect(port);
  Clock::time_point next = Clock::now() + plan.interval * number / kConnectionsPerPort;
  for (uint32_t turn = number; next < plan.end; ++turn) {
    std::this_thread::sleep_until(next);
    const Clock::time_point sent = Clock::now();
    Sample sample{.sent_us = Micros(sent.time_since_epoch()), .key = turn * 7'919 % plan.keys};
    sample.code = fd < 0 ? 'X' : Ask(fd, plan.plain ? "*1\r\n$4\r\nPING\r\n" : CheckOf(sample.key));
    sample.took_us = Micros(Clock::now() - sent);
    samples.push_back(sample);
    if (sample.code == 'X') {
      if (fd >= 0) ::close(fd);
      fd = Connect(port);
    }
    next = std::max(next + plan.interval, Clock::now());  // what waited too long is not made up for
  }
  if (fd >= 0) ::close(fd);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) {
    std::fprintf(stderr, "usage: fault_load SECONDS RATE KEYS PLAIN_PORT PORT [PORT ...]\n");
    return 2;
  }
  const int ports = count - 5;
  const double rate = std::max(1.0, std::atof(arguments[2]));
  Plan plan;
  plan.end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(std::atof(arguments[1])));
  plan.interval = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(ports * kConnectionsPerPort / rate));
  plan.keys = static_cast<uint32_t>(std::max(1, std::atoi(arguments[3])));
  Plan plain = plan;
  plain.plain = true;
  const auto connections = static_cast<size_t>(ports + 1) * kConnectionsPerPort;
  std::vector<std::vector<Sample>> samples(connections);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < connections; ++i) {
    const size_t which = i % static_cast<size_t>(ports + 1);  // the plain one first
    const auto port = static_cast<uint16_t>(std::atoi(arguments[4 + which]));
    threads.emplace_back(
        [&, i, which, port] { Run(which == 0 ? plain : plan, port, static_cast<uint32_t>(i), samples[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Sample>& own : samples) {
    for (const Sample& sample : own) {
      std::printf("%lld %lld %u %c\n", static_cast<long long>(sample.sent_us),
                  static_cast<long long>(sample.took_us), sample.key, sample.code);
    }
  }
}
