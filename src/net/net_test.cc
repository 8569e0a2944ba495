// The loop, its timers, and connections over real sockets of the loopback, with a protocol of lines.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/receive_buffer.h"
#include "net/endpoint.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/socket_address.h"

namespace penstock::net {
namespace {

// ping -> pong · big N -> N bytes and a line end · later -> answered when released · hold -> as later, and reads
// nothing meanwhile · quit -> bye and closes. Lines are at most 100 bytes.
class LineProtocol final : public Protocol {
 public:
  explicit LineProtocol(std::vector<LineProtocol*>& all) { all.push_back(this); }

  void Open(Wire& wire) noexcept override {
    wire_ = &wire;
    buffer_.Clear();
    output_.clear();
    wants_ = Wants{};
    owed_ = 0;
    held_ = false;
    connected_ = true;
  }
  std::span<char> ReceiveSpace() noexcept override { return buffer_.Space(); }
  void Received(size_t count) noexcept override {
    buffer_.Received(count);
    wants_.resume = false;
    while (!held_ && !wants_.close) {
      const std::string_view unread(buffer_.unread().data(), buffer_.unread().size());
      const size_t end = unread.find('\n');
      if (end == std::string_view::npos) {
        if (unread.size() > 100) {
          output_ += "too long\n";
          wants_.close = true;
        }
        break;
      }
      Line(unread.substr(0, end));
      buffer_.Consume(end + 1);
      ++wants_.progress;
    }
    wants_.read = !held_ && !wants_.close;
    wants_.open = owed_ > 0;
    wants_.stage = owed_ > 0 ? Stage::kReply : buffer_.unread().empty() ? Stage::kIdle : Stage::kHead;
    if (draining_ && owed_ == 0) wants_.close = true;
  }
  void ReceivedEnd() noexcept override { wants_.read = false; }
  void TimedOut(Stage stage) noexcept override { output_ += stage == Stage::kIdle ? "idle\n" : "slow\n"; }
  void Drain() noexcept override {
    draining_ = true;
    if (owed_ == 0) wants_.close = true;
  }
  void Close() noexcept override { connected_ = false; }
  Wants wants() const noexcept override { return wants_; }
  std::string_view Output() const noexcept override { return output_; }
  void Written(size_t count) noexcept override { output_.erase(0, count); }

  // On the loop's thread.
  void Release() {
    while (owed_ > 0) {
      output_ += "now\n";
      --owed_;
      wire_->OutputReady();
    }
    wants_.resume = held_;
    held_ = false;
    wants_.open = false;
    wants_.close = draining_;
    wants_.stage = Stage::kIdle;
    wants_.read = true;
  }
  bool connected() const { return connected_; }

 private:
  void Line(std::string_view line) {
    if (line == "ping") output_ += "pong\n";
    if (line.starts_with("big ")) output_.append(std::stoul(std::string(line.substr(4))), 'x').append("\n");
    if (line == "later" || line == "hold") ++owed_;
    if (line == "hold") held_ = true;
    if (line == "quit") {
      output_ += "bye\n";
      wants_.close = true;
    }
  }

  Wire* wire_ = nullptr;
  ReceiveBuffer buffer_;
  std::string output_;
  Wants wants_;
  size_t owed_ = 0;
  bool held_ = false;
  bool draining_ = false;
  bool connected_ = false;
};

class Client {
 public:
  explicit Client(const Endpoint& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress address = SocketAddress::Of(endpoint.address, endpoint.port);
    EXPECT_EQ(::connect(fd_, address.get(), address.length), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // One line without its end; "" at the end of the stream.
  std::string Line() {
    for (;;) {
      const size_t end = read_.find('\n');
      if (end != std::string::npos) {
        std::string line = read_.substr(0, end);
        read_.erase(0, end + 1);
        return line;
      }
      char bytes[64 * 1024];
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) return "";
      read_.append(bytes, static_cast<size_t>(n));
    }
  }
  bool AtEnd() {
    char byte;
    return read_.empty() && ::recv(fd_, &byte, 1, 0) <= 0;
  }
  // Closing will say that nobody reads any more (an end alone leaves that open).
  void Reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  void EndSending() { ::shutdown(fd_, SHUT_WR); }

 private:
  const int fd_;
  std::string read_;
};

class NetTest : public testing::Test {
 protected:
  void StartServer(Limits limits = {}) {
    endpoint_ = *ReserveEndpoint(*ParseEndpoint("127.0.0.1:0"));
    ListenerOptions options;
    options.limits = limits;
    options.stats = &stats_;
    options.factory = [this] { return std::make_unique<LineProtocol>(protocols_); };
    listener_ = std::make_unique<Listener>(loop_, *OpenListeningSocket(endpoint_), options);
    thread_ = std::thread([this] { loop_.Run(); });
    OnLoop([this] { EXPECT_TRUE(listener_->Start()); });
  }
  void SetUp() override { PrepareProcess(); }
  void TearDown() override {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
    listener_.reset();
  }
  // Runs the task on the loop and waits for it.
  void OnLoop(std::function<void()> task) {
    std::promise<void> done;
    loop_.Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Until the condition, looked at on the loop, holds.
  void Await(const std::function<bool()>& condition) {
    for (bool holds = false; !holds;) OnLoop([&] { holds = condition(); });
  }

  SystemClock clock_;
  Loop loop_{clock_};
  ListenerStats stats_;
  Endpoint endpoint_;
  std::vector<LineProtocol*> protocols_;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

// A regular file cannot be watched: it stands for a socket that the kernel has no more room to watch.
TEST_F(NetTest, AListenerThatCannotBeWatchedSaysSo) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ListenerOptions options;
  options.stats = &stats_;
  listener_ = std::make_unique<Listener>(loop_, ::dup(::fileno(file)), options);
  std::fclose(file);
  thread_ = std::thread([this] { loop_.Run(); });
  OnLoop([this] {
    const Result<void> started = listener_->Start();
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().kind, ErrorKind::kUnavailable);
  });
}

TEST_F(NetTest, PipelinedLinesAreAnsweredInOrderHoweverTheyAreCut) {
  StartServer();
  Client client(endpoint_);
  client.Send("ping\nbig 3\npi");
  EXPECT_EQ(client.Line(), "pong");
  EXPECT_EQ(client.Line(), "xxx");
  client.Send("ng\n");
  EXPECT_EQ(client.Line(), "pong");
}

TEST_F(NetTest, AfterThePeersEndItsRequestsAreStillAnswered) {
  StartServer();
  Client client(endpoint_);
  client.Send("later\nping\n");
  client.EndSending();
  Await([&] { return !protocols_.empty() && protocols_[0]->wants().open && !protocols_[0]->wants().read; });
  OnLoop([&] { protocols_[0]->Release(); });
  EXPECT_EQ(client.Line(), "pong");
  EXPECT_EQ(client.Line(), "now");
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(NetTest, AClosedConnectionsObjectServesTheNext) {
  StartServer();
  for (int i = 0; i < 50; ++i) {
    {
      Client client(endpoint_);
      client.Send("quit\n");
      EXPECT_EQ(client.Line(), "bye");
      EXPECT_TRUE(client.AtEnd());
    }
    Await([&] { return stats_.open == 0; });
  }
  EXPECT_EQ(stats_.accepted, 50u);
  EXPECT_LE(protocols_.size(), 2u);
}

TEST_F(NetTest, AnAnswerForAClosedConnectionGoesNowhere) {
  StartServer();
  {
    Client client(endpoint_);
    client.Send("later\n");
    Await([&] { return !protocols_.empty() && protocols_[0]->wants().open; });
    client.Reset();
  }
  Await([&] { return !protocols_[0]->connected(); });
  OnLoop([&] { protocols_[0]->Release(); });
  Client next(endpoint_);
  next.Send("ping\n");
  EXPECT_EQ(next.Line(), "pong");
}

TEST_F(NetTest, HeldInputGoesOnWhenTheAnswerIsThere) {
  StartServer();
  Client client(endpoint_);
  client.Send("hold\nping\nping\n");
  Await([&] { return !protocols_.empty() && protocols_[0]->wants().open; });
  OnLoop([&] { protocols_[0]->Release(); });
  EXPECT_EQ(client.Line(), "now");
  EXPECT_EQ(client.Line(), "pong");
  EXPECT_EQ(client.Line(), "pong");
}

TEST_F(NetTest, APeerThatDoesNotReadIsNotReadFromAndThenServedInFull) {
  StartServer();
  Client client(endpoint_);
  constexpr int kRequests = 200;
  constexpr size_t kBytes = 200'000;
  // Requests are small and would all fit into the kernel's buffers; their answers would be 40 MB.
  std::thread sender([&] {
    for (int i = 0; i < kRequests; ++i) client.Send("big 200000\n");
  });
  sender.join();
  Client other(endpoint_);
  other.Send("ping\n");
  EXPECT_EQ(other.Line(), "pong");
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(client.Line().size(), kBytes);
}

TEST_F(NetTest, TimeOutsOfAHalfSentRequestAndOfIdlenessSayWhy) {
  Limits limits;
  limits.idle = Millis(300);
  limits.head = Millis(300);
  StartServer(limits);
  Client idle(endpoint_);
  Client slow(endpoint_);
  slow.Send("pin");
  EXPECT_EQ(idle.Line(), "idle");
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_EQ(slow.Line(), "slow");
  EXPECT_TRUE(slow.AtEnd());
  EXPECT_EQ(stats_.timed_out, 2u);
}

TEST_F(NetTest, AReplyThatIsOwedHasNoTimeOut) {
  Limits limits;
  limits.idle = Millis(300);
  limits.head = Millis(300);
  StartServer(limits);
  Client waiting(endpoint_);
  waiting.Send("later\n");
  Await([&] { return !protocols_.empty() && protocols_[0]->wants().open; });
  // Others come and go by their time-outs meanwhile.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Client(endpoint_).Line(), "idle");
  OnLoop([&] { protocols_[0]->Release(); });
  EXPECT_EQ(waiting.Line(), "now");
}

TEST_F(NetTest, BeyondTheBoundConnectionsWaitForAPlace) {
  Limits limits;
  limits.max_connections = 2;
  StartServer(limits);
  auto first = std::make_unique<Client>(endpoint_);
  Client second(endpoint_);
  first->Send("ping\n");
  second.Send("ping\n");
  EXPECT_EQ(first->Line(), "pong");
  EXPECT_EQ(second.Line(), "pong");
  Client third(endpoint_);
  third.Send("ping\n");
  Await([&] { return stats_.accept_pauses > 0; });
  EXPECT_EQ(stats_.open, 2u);
  first.reset();
  EXPECT_EQ(third.Line(), "pong");
}

TEST_F(NetTest, WithoutFileDescriptorsAcceptingPausesAndRecovers) {
  StartServer();
  Client before(endpoint_);
  before.Send("ping\n");
  EXPECT_EQ(before.Line(), "pong");
  Client waiting(endpoint_);  // the first to be accepted under the bound, or just before it
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{3, files.rlim_max};
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const SocketAddress address = SocketAddress::Of(endpoint_.address, endpoint_.port);
  EXPECT_EQ(::connect(client, address.get(), address.length), 0);
  Await([&] { return stats_.accept_pauses > 0; });
  before.Send("ping\n");
  EXPECT_EQ(before.Line(), "pong");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_EQ(::send(client, "ping\n", 5, MSG_NOSIGNAL), 5);
  char answer[5];
  EXPECT_EQ(::recv(client, answer, sizeof answer, MSG_WAITALL), 5);
  ::close(client);
}

TEST_F(NetTest, DrainingAnswersWhatWasAskedAndClosesTheRest) {
  StartServer();
  Client idle(endpoint_);
  Client busy(endpoint_);
  idle.Send("ping\n");
  EXPECT_EQ(idle.Line(), "pong");
  busy.Send("ping\nlater\n");
  EXPECT_EQ(busy.Line(), "pong");
  LineProtocol* owing = nullptr;
  Await([&] {
    for (LineProtocol* const protocol : protocols_) {
      if (protocol->wants().open) owing = protocol;
    }
    return owing != nullptr;
  });
  OnLoop([&] { listener_->Drain(); });
  EXPECT_TRUE(idle.AtEnd());
  OnLoop([&] { owing->Release(); });
  EXPECT_EQ(busy.Line(), "now");
  EXPECT_TRUE(busy.AtEnd());
  Await([&] { return stats_.open == 0; });
}

TEST_F(NetTest, ClosingAllLeavesNobody) {
  StartServer();
  Client client(endpoint_);
  client.Send("later\n");
  Await([&] { return !protocols_.empty() && protocols_[0]->wants().open; });
  OnLoop([&] { listener_->CloseAll(); });
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(stats_.open, 0u);
}

TEST(Loop, TimersFireInOrderByAClockThatIsMovedByHand) {
  ManualClock clock(EngineTime{1'000'000});
  Loop loop(clock);
  std::vector<int> fired;
  std::promise<void> last;
  std::thread thread([&] { loop.Run(); });
  std::promise<void> scheduled;
  loop.Post([&] {
    const SteadyTime now = clock.Steady();
    loop.Schedule(now + Seconds(20), [&] { fired.push_back(2); });
    loop.Schedule(now + Seconds(10), [&] { fired.push_back(1); });
    const Timer::Id gone = loop.Schedule(now + Seconds(15), [&] { fired.push_back(99); });
    loop.Schedule(now + Seconds(30), [&] {
      fired.push_back(3);
      last.set_value();
    });
    loop.Cancel(gone);
    loop.Cancel(gone);
    loop.Cancel(12'345);
    scheduled.set_value();
  });
  scheduled.get_future().wait();
  clock.Advance(Seconds(3'600));
  loop.ClockMoved();
  last.get_future().wait();
  loop.Stop();
  thread.join();
  EXPECT_EQ(fired, (std::vector{1, 2, 3}));
}

TEST(Loop, TasksKeepTheirOrder) {
  SystemClock clock;
  Loop loop(clock);
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) loop.Post([&, i] { ran.push_back(i); });
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace penstock::net
