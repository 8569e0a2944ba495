#include "net/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "net/listener_impl.h"
#include "net/socket_address.h"

namespace penstock::net {

ListenerImpl::ListenerImpl(LoopImpl& loop, int fd, ListenerOptions options)
    : loop_(loop), options_(std::move(options)), socket_(fd) {}

// The loop has ended: nobody will call back.
ListenerImpl::~ListenerImpl() {
  if (socket_ >= 0) ::close(socket_);
  options_.stats->open.fetch_sub(static_cast<uint32_t>(live_.size()), std::memory_order_relaxed);
}

Result<void> ListenerImpl::Start() {
  if (!loop_.Watch(socket_, *this, EPOLLIN)) {
    return Fail(ErrorKind::kUnavailable,
                std::string("cannot watch a listening socket: ") + std::strerror(errno));
  }
  Sweep();
  return {};
}

// ---- accepting

void ListenerImpl::OnReady(uint32_t) noexcept {
  if (!draining_) AcceptMany();
}

void ListenerImpl::AcceptMany() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    switch (AcceptOne()) {
      case Accepting::kGoesOn:
        continue;
      case Accepting::kEnough:
        return;
      case Accepting::kPause:
        return Pause();
    }
  }
}

ListenerImpl::Accepting ListenerImpl::AcceptOne() {
  if (options_.stats->open.load(std::memory_order_relaxed) >= options_.limits.max_connections) {
    return Accepting::kPause;
  }
  SocketAddress from;
  from.length = sizeof from.storage;
  const int fd = ::accept4(socket_, from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Accepting::kEnough;
    // The peer is gone already, or its network is: of this one connection, not of ours.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
        errno == EHOSTUNREACH || errno == ENETUNREACH || errno == EHOSTDOWN || errno == ENONET ||
        errno == ENOPROTOOPT || errno == EOPNOTSUPP) {
      return Accepting::kGoesOn;
    }
    if (!std::exchange(told_, true))
      Log(LogLevel::kWarning, std::string("cannot accept connections for now: ") + std::strerror(errno));
    return Accepting::kPause;
  }
  Connection& connection = Take();
  options_.stats->accepted.fetch_add(1, std::memory_order_relaxed);
  options_.stats->open.fetch_add(1, std::memory_order_relaxed);
  connection.live_index = live_.size();
  live_.push_back(&connection);
  connection.Open(fd, from.address());
  return Accepting::kGoesOn;
}

// Peers wait in the backlog meanwhile. A timer and not "when one closes": descriptors are freed elsewhere too.
void ListenerImpl::Pause() {
  options_.stats->accept_pauses.fetch_add(1, std::memory_order_relaxed);
  loop_.Rewatch(socket_, *this, 0);
  loop_.real_timers.Schedule(loop_.RealNow() + kAcceptPause, [this] {
    if (socket_ >= 0) loop_.Rewatch(socket_, *this, EPOLLIN);
  });
}

Connection& ListenerImpl::Take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Connection>(*this, options_.factory()));
    return *all_.back();
  }
  Connection& connection = *free_.back();
  free_.pop_back();
  return connection;
}

// ---- connections

void ListenerImpl::Closed(Connection& connection) {
  Connection* const last = live_.back();
  live_[connection.live_index] = last;
  last->live_index = connection.live_index;
  live_.pop_back();
  options_.stats->open.fetch_sub(1, std::memory_order_relaxed);
  Release(connection);
}

void ListenerImpl::Release(Connection& connection) {
  if (connection.reusable()) free_.push_back(&connection);
}

void ListenerImpl::Defer(Connection& connection) {
  deferred_.push_back(&connection);
  if (deferred_.size() == 1) loop_.Post([this] { RunDeferred(); });
}

void ListenerImpl::RunDeferred() {
  running_.swap(deferred_);  // what is deferred from now on comes after the others' turn
  for (Connection* const connection : running_) connection->Turn();
  running_.clear();
}

void ListenerImpl::Sweep() {
  ++sweep_;
  // From the end: one that closes is replaced by the last, which was looked at already.
  for (size_t i = live_.size(); i-- > 0;) live_[i]->Sweep();
  loop_.real_timers.Schedule(loop_.RealNow() + kSweep, [this] { Sweep(); });
}

void ListenerImpl::Drain() {
  if (std::exchange(draining_, true)) return;
  // Connections that the kernel took for us would be reset without a word.
  while (AcceptOne() == Accepting::kGoesOn) {
  }
  ::close(std::exchange(socket_, -1));
  for (size_t i = live_.size(); i-- > 0;) live_[i]->Drain();
}

void ListenerImpl::CloseAll() {
  if (!std::exchange(draining_, true)) ::close(std::exchange(socket_, -1));
  for (size_t i = live_.size(); i-- > 0;) live_[i]->Close();
}

Listener::Listener(Loop& loop, int fd, ListenerOptions options)
    : impl_(std::make_unique<ListenerImpl>(loop.impl(), fd, std::move(options))) {}
Listener::~Listener() = default;
Result<void> Listener::Start() { return impl_->Start(); }
void Listener::Drain() { impl_->Drain(); }
void Listener::CloseAll() { impl_->CloseAll(); }

}  // namespace penstock::net
