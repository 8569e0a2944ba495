// A whole server in this process: real sockets, several loops, and everything that happens to it at once.
#include "server/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "http/response_parser.h"
#include "net/socket_address.h"
#include "resp/reply_parser.h"

namespace penstock::server {
namespace {

class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const net::SocketAddress address = net::SocketAddress::Of(IpAddress::V4(0x7f000001), port);
    EXPECT_EQ(::connect(fd_, address.get(), address.length), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Whether the next answer says allowed; nothing when the connection ended.
  std::optional<bool> HttpAllowed() {
    for (;;) {
      const http::ResponseParser::Step step = http_.Parse(read_);
      if (step.status == http::ResponseParser::Status::kError) return std::nullopt;
      const bool done = step.status == http::ResponseParser::Status::kResponse;
      const bool allowed = done && http_.response().status == 200;
      read_.erase(0, step.consumed);
      if (done) return allowed;
      if (!More()) return std::nullopt;
    }
  }
  std::optional<bool> RespAllowed() {
    for (;;) {
      const resp::ParseResult result = resp_.Parse(read_);
      if (result.status == resp::ParseStatus::kError) return std::nullopt;
      const bool done = result.status == resp::ParseStatus::kDone;
      const bool allowed = done && resp_.nodes().size() > 1 && resp_.nodes()[1].integer == 1;
      read_.erase(0, result.consumed);
      if (done) return allowed;
      if (!More()) return std::nullopt;
    }
  }

 private:
  bool More() {
    char bytes[16 * 1024];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n > 0) read_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  const int fd_;
  std::string read_;
  http::ResponseParser http_;
  resp::ReplyParser resp_;
};

const std::string kHttpCheck =
    "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"domain\":\"api\"}";
const std::string kRespCheck = "PEN.CHECK api 0\r\n";

uint16_t PortOf(const std::string& ready, std::string_view name) {
  const size_t colon = ready.find(':', ready.find(std::string(name) + "="));
  int port = 0;
  std::from_chars(ready.data() + colon + 1, ready.data() + ready.size(), port);
  return static_cast<uint16_t>(port);
}

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock_server_test_" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
    options_.flags.http = "127.0.0.1:0";
    options_.flags.resp = "127.0.0.1:0";
    options_.flags.threads = 2;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WritePolicy(int burst) {
    const std::filesystem::path file = folder_ / "policy.yaml";
    std::ofstream(file.string() + ".new")
        << "domains:\n  api: {limits: [{name: all, rate: 1000/d, burst: " << burst << "}]}\n";
    std::filesystem::rename(file.string() + ".new", file);
    options_.policy = file;
  }
  std::unique_ptr<Server> Begin() {
    Result<std::unique_ptr<Server>> started = Server::Start(options_, clock_);
    EXPECT_TRUE(started) << started.error().message;
    http_ = PortOf((*started)->ReadyLine(), "http");
    resp_ = PortOf((*started)->ReadyLine(), "resp");
    return std::move(*started);
  }

  std::filesystem::path folder_;
  SystemClock clock_;
  Options options_;
  uint16_t http_ = 0;
  uint16_t resp_ = 0;
  std::atomic<int> ignored_{0};
};

TEST_F(ServerTest, ManyClientsTogetherGetExactlyWhatThereIs) {
  WritePolicy(1'000);
  const std::unique_ptr<Server> server = Begin();
  constexpr int kClients = 8;
  constexpr int kBatches = 50;
  constexpr int kPipeline = 10;
  std::atomic<int> allowed{0};
  std::atomic<int> lost{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, by_http = i % 2 == 0] {
      Client client(by_http ? http_ : resp_);
      for (int batch = 0; batch < kBatches; ++batch) {
        for (int n = 0; n < kPipeline; ++n) client.Send(by_http ? kHttpCheck : kRespCheck);
        for (int n = 0; n < kPipeline; ++n) {
          const std::optional<bool> answer = by_http ? client.HttpAllowed() : client.RespAllowed();
          ++(answer.has_value() ? (*answer ? allowed : ignored_) : lost);
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(allowed, 1'000);
  EXPECT_TRUE(server->Stop([] { return false; }));
}

TEST_F(ServerTest, ReloadsAndStopsUnderTraffic) {
  WritePolicy(1'000);
  const std::unique_ptr<Server> server = Begin();
  std::atomic<bool> enough{false};
  std::atomic<int> answers{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, by_http = i % 2 == 0] {
      Client client(by_http ? http_ : resp_);
      for (;;) {
        client.Send(by_http ? kHttpCheck : kRespCheck);
        if (!(by_http ? client.HttpAllowed() : client.RespAllowed())) break;
        ++answers;
      }
    });
  }
  std::thread scraper([&] {
    while (!enough) {
      Client client(http_);
      client.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
      EXPECT_EQ(client.HttpAllowed(), true);
      EXPECT_EQ(client.HttpAllowed(), true);
    }
  });
  for (int burst = 1'001; burst <= 1'010; ++burst) {
    WritePolicy(burst);
    server->Reload();
    server->Tick();
    const int before = answers;
    while (answers < before + 20) std::this_thread::yield();
  }
  enough = true;
  scraper.join();
  EXPECT_TRUE(server->Stop([] { return false; }));
  for (std::thread& client : clients) client.join();
}

TEST_F(ServerTest, ItsStateComesBackFromTheSnapshot) {
  WritePolicy(10);
  options_.flags.snapshot = (folder_ / "state").string();
  for (int run = 0; run < 2; ++run) {
    const std::unique_ptr<Server> server = Begin();
    {
      Client client(resp_);
      for (int n = 0; n < 6; ++n) client.Send(kRespCheck);
      for (int n = 0; n < 6; ++n) EXPECT_EQ(client.RespAllowed(), run == 0 || n < 4);
    }
    EXPECT_TRUE(server->Stop([] { return false; }));
  }
}

TEST_F(ServerTest, TwoServersDoNotShareAPort) {
  const std::unique_ptr<Server> server = Begin();
  options_.flags.http = "127.0.0.1:" + std::to_string(http_);
  const Result<std::unique_ptr<Server>> second = Server::Start(options_, clock_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
}

}  // namespace
}  // namespace penstock::server
