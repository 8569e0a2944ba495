#include "net/out_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace penstock::net {
namespace {

// A peer that went away without a word is found out this long after its last byte, while nothing is asked of it.
constexpr int kKeepaliveIdleSeconds = 15;
constexpr int kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveProbes = 3;
// An address that does not answer (it drops packets, as a half-configured IPv6 does) is left for the name's next one.
constexpr Micros kAddressLimit = Millis(200);
// Capacity of the output that is kept once it is empty.
constexpr size_t kKeptOutput = 1'024 * 1'024;

void SetTcpOptions(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

bool UnixAddress(const std::string& path, SocketAddress& out) {
  auto* const un = reinterpret_cast<sockaddr_un*>(&out.storage);
  if (path.size() >= sizeof un->sun_path) return false;
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.data(), path.size());
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return true;
}

}  // namespace

void Mailbox::Close() {
  MutexLock lock(mutex_);
  loop_ = nullptr;
}

void Mailbox::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (loop_ != nullptr) loop_->Post(std::move(task));
}

OutStream::OutStream(LoopImpl& loop, std::shared_ptr<Mailbox> mailbox, TlsClient& tls_client,
                     DialTarget target, StreamHandler& handler)
    : loop_(loop),
      mailbox_(std::move(mailbox)),
      tls_client_(tls_client),
      target_(std::move(target)),
      handler_(handler),
      self_(std::make_shared<OutStream*>(this)) {}

OutStream::~OutStream() {
  *self_ = nullptr;
  if (in_turn_end_) loop_.ForgetTurnEnd(*this);
  CloseSocket();
}

void OutStream::CloseSocket() {
  StopWaiting();
  if (fd_ < 0) return;
  if (tls_) tls_->Shutdown();
  tls_.reset();
  loop_.Unwatch(fd_, *this);
  ::close(fd_);
  fd_ = -1;
  events_ = 0;
}

void OutStream::WaitFor(uint32_t events) {
  if (events == events_) return;
  events_ = events;
  loop_.Rewatch(fd_, *this, events);
}

void OutStream::AskForTurnEnd() {
  if (std::exchange(in_turn_end_, true)) return;
  loop_.AtTurnEnd(*this);
}

void OutStream::End(std::string why) {
  why_ = std::move(why);
  state_ = State::kEnded;
  ending_ = true;
  CloseSocket();
  AskForTurnEnd();
}

void OutStream::EndNow(std::string_view why) {
  state_ = State::kEnded;
  CloseSocket();
  handler_.Closed(why);
}

// ---- connecting

void OutStream::Start(const ResolveFunction& resolve) {
  if (!target_.path.empty()) return ConnectNext();
  if (const std::optional<IpAddress> address = ParseAddress(target_.host)) {
    addresses_.push_back(*address);
    return ConnectNext();
  }
  resolve(target_.host, [mailbox = mailbox_, self = std::weak_ptr(self_)](const Resolved& resolved) {
    mailbox->Post([self, resolved] {
      const std::shared_ptr<OutStream*> stream = self.lock();
      if (stream && *stream != nullptr) (*stream)->Found(resolved);
    });
  });
}

void OutStream::Found(const Resolved& resolved) {
  if (resolved.addresses.empty()) {
    return End("the name '" + target_.host + "' cannot be looked up: " + resolved.error);
  }
  addresses_ = resolved.addresses;
  ConnectNext();
}

void OutStream::ConnectNext() {
  state_ = State::kConnecting;
  SocketAddress address;
  if (!target_.path.empty()) {
    if (next_address_++ > 0) return End(std::move(why_));
    if (!UnixAddress(target_.path, address)) return End("the path of the socket is too long");
    if (!Connect(address)) End(std::move(why_));
    return;
  }
  while (next_address_ < addresses_.size()) {
    address = SocketAddress::Of(addresses_[next_address_++], target_.port);
    if (Connect(address)) return WaitForAddress();
  }
  End(std::move(why_));
}

void OutStream::WaitForAddress() {
  if (next_address_ == addresses_.size()) return;  // there is no other to go to
  address_timer_ = loop_.real_timers.Schedule(loop_.RealNow() + kAddressLimit, [this] {
    address_timer_ = 0;
    if (state_ == State::kConnecting) ConnectNext();
  });
}

void OutStream::StopWaiting() {
  if (address_timer_ != 0) loop_.real_timers.Cancel(std::exchange(address_timer_, 0));
}

bool OutStream::Connect(const SocketAddress& address) {
  CloseSocket();
  fd_ = ::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) {
    why_ = std::string("no socket: ") + std::strerror(errno);
    return false;
  }
  if (target_.path.empty()) SetTcpOptions(fd_);
  // Interrupted or not, the kernel goes on connecting; readiness to write tells how it went.
  if (::connect(fd_, address.get(), address.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    why_ = std::string("cannot connect: ") + std::strerror(errno);
  } else if (!loop_.Watch(fd_, *this, EPOLLOUT)) {
    why_ = std::string("cannot watch a socket: ") + std::strerror(errno);
  } else {
    events_ = EPOLLOUT;
    return true;
  }
  ::close(fd_);
  fd_ = -1;
  return false;
}

void OutStream::OnConnected() {
  StopWaiting();
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    why_ = std::string("cannot connect: ") + std::strerror(error);
    return ConnectNext();
  }
  if (!target_.tls) return Opened();
  Result<std::unique_ptr<TlsStream>> tls = tls_client_.NewStream(fd_, target_);
  if (!tls) return EndNow(tls.error().message);
  tls_ = std::move(*tls);
  state_ = State::kHandshake;
  ContinueHandshake();
}

void OutStream::ContinueHandshake() {
  switch (tls_->Handshake().status) {
    case TlsStream::Status::kOk:
      return Opened();
    case TlsStream::Status::kWantRead:
      return WaitFor(EPOLLIN);
    case TlsStream::Status::kWantWrite:
      return WaitFor(EPOLLOUT);
    case TlsStream::Status::kEnd:
    case TlsStream::Status::kError:
      break;
  }
  EndNow("TLS: " + tls_->Why());
}

void OutStream::Opened() {
  state_ = State::kOpen;
  WaitFor(EPOLLIN);
  if (unsent() > 0) AskForTurnEnd();
  handler_.Connected();
}

// ---- open

void OutStream::OnReady(uint32_t events) noexcept {
  switch (state_) {
    case State::kResolving:
    case State::kEnded:
      return;
    case State::kConnecting:
      return OnConnected();
    case State::kHandshake:
      return ContinueHandshake();
    case State::kOpen:
      break;
  }
  if ((events & EPOLLOUT) != 0 && Flush() == Went::kEnded) return;
  // An end or a failure is found by reading, and with it what came before.
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) Read();
}

void OutStream::Read() {
  const std::span<char> space = handler_.ReceiveSpace();
  if (tls_) {
    const TlsStream::Io io = tls_->Read(space);
    if (io.status == TlsStream::Status::kEnd) return EndNow("the server closed the connection");
    if (io.status == TlsStream::Status::kError) return EndNow("TLS: " + tls_->Why());
    if (io.status != TlsStream::Status::kOk) return;
    if (tls_->HasPending()) {
      read_more_ = true;
      AskForTurnEnd();
    }
    return handler_.Received(io.bytes);
  }
  for (;;) {
    const ssize_t n = ::recv(fd_, space.data(), space.size(), 0);
    if (n > 0) return handler_.Received(static_cast<size_t>(n));
    if (n == 0) return EndNow("the server closed the connection");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    return EndNow(std::string("connection lost: ") + std::strerror(errno));
  }
}

void OutStream::Write(std::string_view bytes) noexcept {
  if (state_ == State::kEnded) return;
  output_.append(bytes);
  if (state_ == State::kOpen && !blocked_ && !cannot_write_) AskForTurnEnd();
}

OutStream::Went OutStream::FlushTls() {
  while (unsent() > 0) {
    const TlsStream::Io io = tls_->Write(std::string_view(output_).substr(sent_));
    if (io.status == TlsStream::Status::kOk) {
      sent_ += io.bytes;
      continue;
    }
    if (io.status == TlsStream::Status::kWantWrite) return Went::kWaits;
    // Without renegotiation a write never waits for the peer's bytes once the handshake is over.
    EndNow("TLS: " + tls_->Why());
    return Went::kEnded;
  }
  return Went::kOn;
}

OutStream::Went OutStream::Flush() {
  if (cannot_write_) return Went::kWaits;
  Went went = Went::kOn;
  if (tls_) {
    went = FlushTls();
    if (went == Went::kEnded) return went;
  }
  while (went == Went::kOn && unsent() > 0) {
    const ssize_t n = ::send(fd_, output_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      // What the peer sent before it went is read first; reading then finds the end.
      cannot_write_ = true;
      WaitFor(EPOLLIN);
      return Went::kWaits;
    }
    if (n > 0) sent_ += static_cast<size_t>(n);
    if (unsent() > 0) went = Went::kWaits;  // asking again would only cost a call
  }
  if (unsent() == 0) {
    output_.clear();
    if (output_.capacity() > kKeptOutput) output_.shrink_to_fit();
    sent_ = 0;
  } else if (sent_ > output_.size() / 2) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
  blocked_ = went == Went::kWaits;
  WaitFor(blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  return went;
}

void OutStream::OnTurnEnd() noexcept {
  in_turn_end_ = false;
  if (std::exchange(ending_, false)) return handler_.Closed(why_);
  if (state_ != State::kOpen) return;
  if (!blocked_ && unsent() > 0 && Flush() == Went::kEnded) return;
  if (std::exchange(read_more_, false)) Read();
}

}  // namespace penstock::net
