#include "load.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/receive_buffer.h"
#include "http/request_writer.h"
#include "http/response_parser.h"
#include "net/socket_address.h"
#include "resp/reply_parser.h"
#include "resp/writer.h"

namespace penstock::app {
namespace {

int64_t NowUs() {
  using std::chrono::microseconds;
  return std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

enum class Answer : unsigned char { kNone, kAllowed, kDenied, kError, kBroken };

// Writes requests and reads answers of one protocol; one a connection.
class Speaker {
 public:
  virtual ~Speaker() = default;
  // What is said once, and whether it has an answer.
  virtual bool AppendGreeting(std::string& out) = 0;
  virtual void AppendRequest(std::string& out, uint64_t key) = 0;
  // The next answer in `unread`; `consumed` bytes are then done with.
  virtual Answer Read(std::string_view unread, size_t& consumed) = 0;
};

std::string KeyText(uint64_t key) {
  std::string text = "bench:";
  AppendInt(text, static_cast<int64_t>(key));
  return text;
}

class RespSpeaker final : public Speaker {
 public:
  explicit RespSpeaker(const LoadOptions& options) : token_(options.token) {
    for (const int64_t number : {options.burst, options.count, options.period_s}) {
      AppendInt(numbers_[numbers_used_++], number);
    }
  }
  bool AppendGreeting(std::string& out) override {
    if (token_.empty()) return false;
    resp::AppendCommand(out, {"AUTH", token_});
    return true;
  }
  void AppendRequest(std::string& out, uint64_t key) override {
    resp::AppendCommand(out, {"CL.THROTTLE", KeyText(key), numbers_[0], numbers_[1], numbers_[2]});
  }
  Answer Read(std::string_view unread, size_t& consumed) override {
    const resp::ParseResult result = parser_.Parse(unread);
    consumed = result.consumed;
    if (result.status == resp::ParseStatus::kNeedMore) return Answer::kNone;
    if (result.status == resp::ParseStatus::kError) return Answer::kBroken;
    const resp::ReplyNode& root = parser_.root();
    if (root.type != resp::ReplyType::kArray || root.children != 5) return Answer::kError;
    return parser_.nodes()[1].integer == 0 ? Answer::kAllowed : Answer::kDenied;
  }

 private:
  const std::string token_;
  std::array<std::string, 3> numbers_;
  size_t numbers_used_ = 0;
  resp::ReplyParser parser_;
};

class HttpSpeaker final : public Speaker {
 public:
  explicit HttpSpeaker(const LoadOptions& options) : host_(options.target.Text()) {
    if (!options.token.empty()) bearer_ = "Bearer " + options.token;
    limit_ = "\",\"limit\":{\"rate\":\"";
    AppendInt(limit_, options.count);
    limit_ += '/';
    AppendInt(limit_, options.period_s);
    limit_ += "s\",\"burst\":";
    AppendInt(limit_, options.burst);
    limit_ += "}}";
  }
  bool AppendGreeting(std::string&) override { return false; }
  void AppendRequest(std::string& out, uint64_t key) override {
    body_ = "{\"key\":\"" + KeyText(key) + limit_;
    const http::Header authorization{"Authorization", bearer_};
    http::OutgoingRequest request{.method = "POST", .target = "/v1/check", .host = host_};
    if (!bearer_.empty()) request.headers = {&authorization, 1};
    request.content_type = "application/json";
    request.body = body_;
    written_ = http::AppendRequest(out, request) && written_;
  }
  Answer Read(std::string_view unread, size_t& consumed) override {
    const http::ResponseParser::Step step = parser_.Parse(unread);
    consumed = step.consumed;
    if (step.status == http::ResponseParser::Status::kNeedMore) return Answer::kNone;
    if (step.status == http::ResponseParser::Status::kError || !written_) return Answer::kBroken;
    const int status = parser_.response().status;
    return status == 200 ? Answer::kAllowed : status == 429 ? Answer::kDenied : Answer::kError;
  }

 private:
  const std::string host_;
  std::string bearer_;
  std::string limit_;
  std::string body_;
  bool written_ = true;
  http::ResponseParser parser_;
};

struct Connection {
  int fd = -1;
  std::unique_ptr<Speaker> speaker;
  ReceiveBuffer input;
  std::string output;
  size_t sent = 0;
  uint32_t greetings = 0;  // answers that are not counted
  uint64_t waiting = 0;    // requests without an answer
  int64_t sent_at_us = 0;
  bool writable_wanted = false;

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (fd >= 0) ::close(fd);
  }
};

tl::unexpected<Error> Unreachable(const LoadOptions& options, std::string_view what) {
  std::string message = options.target.Text() + ": ";
  message += what;
  return Fail(ErrorKind::kUnavailable, std::move(message));
}

class Load {
 public:
  Load(const LoadOptions& options, const std::function<void(double, uint64_t)>& watch)
      : options_(options), watch_(watch), random_(options.seed), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Load() { ::close(epoll_); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  Result<LoadReport> Run();

 private:
  static constexpr int kEvents = 256;
  static constexpr int kWaitMs = 100;
  static constexpr int64_t kSilenceUs = 30'000'000;  // no answer for so long: the server is gone

  Result<void> Connect(Connection& connection);
  void Fill(Connection& connection);
  Result<void> Send(Connection& connection);
  Result<void> Receive(Connection& connection);
  Result<void> ReadAnswers(Connection& connection);
  bool MaySend() const;
  double Share() const;

  const LoadOptions& options_;
  const std::function<void(double, uint64_t)>& watch_;
  Random random_;
  const int epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  LoadReport report_;
  uint64_t requested_ = 0;
  uint64_t waiting_ = 0;
  int64_t began_us_ = 0;
  int64_t now_us_ = 0;
};

bool Load::MaySend() const {
  if (options_.requests > 0) return requested_ < options_.requests;
  return now_us_ - began_us_ < options_.duration_ms * 1'000;
}

double Load::Share() const {
  if (options_.requests > 0)
    return static_cast<double>(report_.answers()) / static_cast<double>(options_.requests);
  return static_cast<double>(now_us_ - began_us_) / (static_cast<double>(options_.duration_ms) * 1'000.0);
}

Result<void> Load::Connect(Connection& connection) {
  const int family = options_.target.address.is_v4() ? AF_INET : AF_INET6;
  connection.fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const net::SocketAddress address = net::SocketAddress::Of(options_.target.address, options_.target.port);
  if (connection.fd < 0 || ::connect(connection.fd, address.get(), address.length) != 0) {
    return Unreachable(options_, std::strerror(errno));
  }
  const int on = 1;
  ::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &connection;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event) != 0)
    return Unreachable(options_, std::strerror(errno));
  if (options_.protocol == LoadProtocol::kResp) {
    connection.speaker = std::make_unique<RespSpeaker>(options_);
  } else {
    connection.speaker = std::make_unique<HttpSpeaker>(options_);
  }
  if (connection.speaker->AppendGreeting(connection.output)) ++connection.greetings;
  return {};
}

void Load::Fill(Connection& connection) {
  for (uint32_t i = 0; i < options_.pipeline && MaySend(); ++i) {
    connection.speaker->AppendRequest(connection.output, random_.Below(options_.keys));
    ++connection.waiting;
    ++waiting_;
    ++requested_;
  }
  connection.sent_at_us = now_us_;
}

Result<void> Load::Send(Connection& connection) {
  while (connection.sent < connection.output.size()) {
    const ssize_t n = ::send(connection.fd, connection.output.data() + connection.sent,
                             connection.output.size() - connection.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      connection.sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return Unreachable(options_, std::strerror(errno));
    }
  }
  const bool done = connection.sent == connection.output.size();
  if (done) {
    connection.output.clear();
    connection.sent = 0;
  }
  if (done == connection.writable_wanted) {
    epoll_event event{};
    event.events = done ? EPOLLIN : (EPOLLIN | EPOLLOUT);
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
    connection.writable_wanted = !done;
  }
  return {};
}

Result<void> Load::ReadAnswers(Connection& connection) {
  uint64_t answers = 0;
  for (;;) {
    const std::span<char> unread = connection.input.unread();
    size_t consumed = 0;
    const Answer answer = connection.speaker->Read({unread.data(), unread.size()}, consumed);
    connection.input.Consume(consumed);
    if (answer == Answer::kNone) break;
    if (answer == Answer::kBroken) return Unreachable(options_, "the answer is not of this protocol");
    if (connection.greetings > 0) {
      --connection.greetings;
      continue;
    }
    if (connection.waiting == 0) return Unreachable(options_, "an answer that was not asked for");
    --connection.waiting;
    ++answers;
    ++(answer == Answer::kAllowed  ? report_.allowed
       : answer == Answer::kDenied ? report_.denied
                                   : report_.errors);
  }
  waiting_ -= answers;
  if (answers > 0) report_.latencies.Add(static_cast<uint64_t>(now_us_ - connection.sent_at_us), answers);
  return {};
}

Result<void> Load::Receive(Connection& connection) {
  const std::span<char> space = connection.input.Space();
  const ssize_t n = ::recv(connection.fd, space.data(), space.size(), MSG_DONTWAIT);
  if (n == 0) return Unreachable(options_, "the server closed the connection");
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    return Unreachable(options_, std::strerror(errno));
  }
  connection.input.Received(static_cast<size_t>(n));
  now_us_ = NowUs();
  if (Result<void> read = ReadAnswers(connection); !read) return read;
  if (connection.waiting > 0 || connection.greetings > 0) return {};
  Fill(connection);
  return Send(connection);
}

Result<LoadReport> Load::Run() {
  began_us_ = now_us_ = NowUs();
  for (uint32_t i = 0; i < options_.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>());
    if (Result<void> connected = Connect(*connections_.back()); !connected)
      return tl::unexpected(connected.error());
  }
  began_us_ = now_us_ = NowUs();
  for (const auto& connection : connections_) {
    Fill(*connection);
    if (Result<void> sent = Send(*connection); !sent) return tl::unexpected(sent.error());
  }
  int64_t heard_us = now_us_;
  while (waiting_ > 0) {
    std::array<epoll_event, kEvents> events;
    const int count = ::epoll_wait(epoll_, events.data(), kEvents, kWaitMs);
    now_us_ = NowUs();
    if (count > 0) heard_us = now_us_;
    if (now_us_ - heard_us > kSilenceUs) return Unreachable(options_, "no answer");
    for (int i = 0; i < count; ++i) {
      Connection& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      if ((events[static_cast<size_t>(i)].events & EPOLLOUT) != 0) {
        if (Result<void> sent = Send(connection); !sent) return tl::unexpected(sent.error());
      }
      if ((events[static_cast<size_t>(i)].events & ~uint32_t{EPOLLOUT}) != 0) {
        if (Result<void> received = Receive(connection); !received) return tl::unexpected(received.error());
      }
    }
    watch_(Share(), report_.answers());
  }
  report_.elapsed_us = NowUs() - began_us_;
  return report_;
}

}  // namespace

Result<LoadReport> RunLoad(const LoadOptions& options, const std::function<void(double, uint64_t)>& watch) {
  return Load(options, watch).Run();
}

}  // namespace penstock::app
