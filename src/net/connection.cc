#include "net/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "net/limits.h"
#include "net/listener_impl.h"

namespace penstock::net {
namespace {

// How often held-back input is looked at in one turn before others have theirs.
constexpr int kResumesPerTurn = 4;

}  // namespace

Connection::Connection(ListenerImpl& listener, std::unique_ptr<Protocol> protocol)
    : listener_(listener), protocol_(std::move(protocol)) {}

Connection::~Connection() {
  if (fd_ >= 0) ::close(fd_);
}

void Connection::Open(int fd, std::optional<IpAddress> address) {
  const int on = 1;
  if (address) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!listener_.loop().Watch(fd, *this, EPOLLIN)) {
    ::close(fd);
    return listener_.Closed(*this);
  }
  events_ = EPOLLIN;
  blocked_ = false;
  fd_ = fd;
  address_ = address;
  tls_.reset();
  peer_ended_ = closing_ = draining_ = read_needs_write_ = false;
  discarded_ = 0;
  since_ = write_since_ = listener_.sweep();
  stage_ = Stage::kIdle;
  progress_ = 0;
  state_ = State::kOpen;
  protocol_->Open(*this);
  if (const TlsServer* const tls = listener_.options().tls; tls != nullptr) {
    state_ = State::kHandshake;
    tls_ = tls->NewStream(fd);
    if (!tls_) return Close();
  }
}

// ---- the socket

Connection::IoResult Connection::FromTls(TlsStream::Io io) {
  switch (io.status) {
    case TlsStream::Status::kOk:
      return {IoStatus::kBytes, io.bytes};
    case TlsStream::Status::kEnd:
      return {IoStatus::kEnd};
    case TlsStream::Status::kError:
      return {IoStatus::kFailed};
    case TlsStream::Status::kWantRead:
    case TlsStream::Status::kWantWrite:
      break;
  }
  return {IoStatus::kAgain};
}

Connection::IoResult Connection::Read(std::span<char> buffer) {
  if (tls_) {
    const TlsStream::Io io = tls_->Read(buffer);
    read_needs_write_ = io.status == TlsStream::Status::kWantWrite;
    return FromTls(io);
  }
  for (;;) {
    const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (n > 0) return {IoStatus::kBytes, static_cast<size_t>(n)};
    if (n == 0) return {IoStatus::kEnd};
    if (errno == EINTR) continue;
    return {errno == EAGAIN || errno == EWOULDBLOCK ? IoStatus::kAgain : IoStatus::kFailed};
  }
}

Connection::IoResult Connection::Write(std::string_view bytes) {
  if (tls_) {
    const TlsStream::Io io = tls_->Write(bytes);
    // Without renegotiation a write never waits for the peer's bytes once the handshake is over.
    if (io.status == TlsStream::Status::kWantRead) return {IoStatus::kFailed};
    return FromTls(io);
  }
  for (;;) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) return {IoStatus::kBytes, static_cast<size_t>(n)};
    if (errno == EINTR) continue;
    return {errno == EAGAIN || errno == EWOULDBLOCK ? IoStatus::kAgain : IoStatus::kFailed};
  }
}

void Connection::WaitFor(uint32_t events) {
  if (events == events_) return;
  events_ = events;
  listener_.loop().Rewatch(fd_, *this, events);
}

// ---- events

void Connection::OnReady(uint32_t events) noexcept {
  if (state_ == State::kClosed) return;
  if ((events & EPOLLOUT) != 0) OnWritable();
  if (state_ == State::kClosed) return;
  if ((events & EPOLLIN) != 0 && (events_ & EPOLLIN) != 0) return OnReadable();
  if ((events & EPOLLRDHUP) != 0 && (events_ & EPOLLRDHUP) != 0) return OnEnd();
  // Level-triggered, an end that nobody wants to read would be told for ever.
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) Close();
}

void Connection::OnReadable() {
  if (state_ == State::kLingering) return DiscardInput();
  if (state_ == State::kHandshake && !ContinueHandshake()) return;
  if (ReceiveOnce()) Advance();
}

// Whatever it has sent before is not read.
void Connection::OnEnd() {
  peer_ended_ = true;
  in_protocol_ = true;
  protocol_->ReceivedEnd();
  in_protocol_ = false;
  Advance();
}

void Connection::OnWritable() {
  if (state_ == State::kLingering) return;
  if (state_ == State::kHandshake || std::exchange(read_needs_write_, false)) return OnReadable();
  Advance();
}

bool Connection::ContinueHandshake() {
  switch (tls_->Handshake().status) {
    case TlsStream::Status::kOk:
      break;
    case TlsStream::Status::kWantRead:
      WaitFor(EPOLLIN);
      return false;
    case TlsStream::Status::kWantWrite:
      WaitFor(EPOLLOUT);
      return false;
    case TlsStream::Status::kEnd:
    case TlsStream::Status::kError:
      listener_.options().stats->failed_handshakes.fetch_add(1, std::memory_order_relaxed);
      Close();
      return false;
  }
  state_ = State::kOpen;
  since_ = listener_.sweep();
  return true;
}

bool Connection::ReceiveOnce() {
  in_protocol_ = true;
  const IoResult read = Read(protocol_->ReceiveSpace());
  if (read.status == IoStatus::kBytes) {
    protocol_->Received(read.bytes);
  } else if (read.status == IoStatus::kEnd) {
    peer_ended_ = true;
    protocol_->ReceivedEnd();
  }
  in_protocol_ = false;
  if (read.status != IoStatus::kFailed) return true;
  Close();
  return false;
}

void Connection::DiscardInput() {
  char waste[16 * 1024];
  const IoResult read = Read(waste);
  if (read.status == IoStatus::kBytes) discarded_ += read.bytes;
  if (read.status == IoStatus::kEnd || read.status == IoStatus::kFailed || discarded_ > kLingerBytes) Close();
}

void Connection::OutputReady() noexcept {
  if (state_ == State::kOpen && !in_protocol_) Defer();
}

void Connection::Defer() {
  if (std::exchange(deferred_, true)) return;
  listener_.Defer(*this);
}

void Connection::Turn() {
  deferred_ = false;
  if (state_ == State::kClosed) return listener_.Release(*this);
  if (state_ != State::kOpen) return;
  // Bytes that OpenSSL holds already: the socket will not tell of them.
  if (tls_ && tls_->HasPending() && !peer_ended_ && !closing_ && protocol_->wants().read) return OnReadable();
  Advance();
}

// ---- going on

void Connection::Advance() {
  for (int resumes = 0;; ++resumes) {
    if (!SendOutput()) return Close();
    const Wants wants = protocol_->wants();
    const size_t pending = protocol_->Output().size();
    const bool ended = wants.close || ((closing_ || peer_ended_) && !wants.open && !wants.resume);
    if (pending == 0 && ended) return BeginLinger();
    if (wants.resume && pending <= kMaxPendingOutput) {
      if (resumes == kResumesPerTurn) {
        WaitFor(0);  // others have their turn first
        return Defer();
      }
      in_protocol_ = true;
      protocol_->Received(0);
      in_protocol_ = false;
      continue;
    }
    NoteStage(wants);
    uint32_t events = 0;
    if (pending > 0) {
      if (!std::exchange(blocked_, true)) write_since_ = listener_.sweep();
      events = EPOLLOUT;
    } else {
      blocked_ = false;
    }
    if (!peer_ended_ && !closing_ && wants.read && !wants.close && pending <= kMaxPendingOutput) {
      events |= read_needs_write_ ? EPOLLOUT : EPOLLIN;
      if (tls_ && tls_->HasPending()) Defer();
    } else if (!peer_ended_ && !closing_ && wants.end) {
      events |= EPOLLRDHUP;
    }
    return WaitFor(events);
  }
}

bool Connection::SendOutput() {
  for (;;) {
    const std::string_view output = protocol_->Output();
    if (output.empty()) return true;
    const IoResult write = Write(output);
    if (write.status == IoStatus::kAgain) return true;
    if (write.status != IoStatus::kBytes || write.bytes == 0) return false;
    write_since_ = listener_.sweep();
    protocol_->Written(write.bytes);
    // A plain socket that took less than all has no more room now; asking again would only cost a call.
    if (!tls_ && write.bytes < output.size()) return true;
  }
}

void Connection::BeginLinger() {
  if (peer_ended_ || draining_) {
    // Draining, everything that had arrived was read: closing sends an end and no reset.
    if (tls_) tls_->Shutdown();
    return Close();
  }
  state_ = State::kLingering;
  since_ = listener_.sweep();
  if (tls_) tls_->Shutdown();
  ::shutdown(fd_, SHUT_WR);
  WaitFor(EPOLLIN);
}

void Connection::NoteStage(const Wants& wants) {
  if (wants.stage == stage_ && wants.progress == progress_) return;
  stage_ = wants.stage;
  progress_ = wants.progress;
  since_ = listener_.sweep();
}

bool Connection::Expired(Micros limit, uint32_t since) const {
  return limit.count > 0 && static_cast<int64_t>(listener_.sweep() - since) * kSweep.count > limit.count;
}

void Connection::Sweep() {
  const Limits& limits = listener_.options().limits;
  if (state_ == State::kLingering) {
    if (Expired(kLinger, since_)) Close();
    return;
  }
  if (state_ == State::kHandshake) {
    if (!Expired(limits.handshake, since_)) return;
    listener_.options().stats->failed_handshakes.fetch_add(1, std::memory_order_relaxed);
    return Close();
  }
  if (state_ != State::kOpen) return;
  if (!protocol_->Output().empty()) {
    if (!Expired(limits.stalled, write_since_)) return;
    listener_.options().stats->timed_out.fetch_add(1, std::memory_order_relaxed);
    return Close();
  }
  Micros limit{0};
  switch (stage_) {
    case Stage::kIdle:
      limit = limits.idle;
      break;
    case Stage::kHead:
      limit = limits.head;
      break;
    case Stage::kBody:
      limit = limits.body;
      break;
    case Stage::kReply:
      break;
  }
  if (closing_ || !Expired(limit, since_)) return;
  listener_.options().stats->timed_out.fetch_add(1, std::memory_order_relaxed);
  closing_ = true;
  in_protocol_ = true;
  protocol_->TimedOut(stage_);
  in_protocol_ = false;
  Advance();
}

void Connection::Drain() {
  if (state_ == State::kHandshake) return Close();
  if (state_ != State::kOpen) return;
  draining_ = true;
  // What the peer had sent before it could know is answered.
  if (!peer_ended_ && !closing_ && protocol_->wants().read && !ReceiveOnce()) return;
  in_protocol_ = true;
  protocol_->Drain();
  in_protocol_ = false;
  Advance();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  protocol_->Close();
  tls_.reset();
  ::close(fd_);  // and with it the loop's watch
  fd_ = -1;
  address_.reset();
  listener_.Closed(*this);
}

}  // namespace penstock::net
