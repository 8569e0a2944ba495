// The listener as its connections see it. Internal to net.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/asio_loop.h"
#include "net/connection.h"
#include "net/listener.h"

namespace penstock::net {

class ListenerImpl {
 public:
  ListenerImpl(LoopImpl& loop, int fd, ListenerOptions options);
  ~ListenerImpl();

  void Start();
  void Drain();
  void CloseAll();

  // For connections.
  boost::asio::io_context& io() { return loop_.io; }
  const ListenerOptions& options() const { return options_; }
  uint32_t sweep() const { return sweep_; }  // counts the sweeps
  void Defer(Connection& connection);        // its Turn() comes after what is now under way
  void Closed(Connection& connection);
  void Release(Connection& connection);  // to be used again, if it may

 private:
  enum class Accepting : uint8_t { kGoesOn, kEnough, kPause };

  void ArmAccept();
  Accepting AcceptOne();
  void AcceptMany();
  void Pause();
  void ArmSweep();
  void Sweep();
  void RunDeferred();
  Connection& Take();

  LoopImpl& loop_;
  const ListenerOptions options_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer sweep_timer_;
  boost::asio::steady_timer pause_timer_;
  // Invariant: live_[c.live_index] == &c for every open connection; free_ holds the reusable ones; a closed
  // connection that is still waited for stands in neither.
  std::vector<std::unique_ptr<Connection>> all_;
  std::vector<Connection*> live_;
  std::vector<Connection*> free_;
  std::vector<Connection*> deferred_;
  std::vector<Connection*> running_;  // deferred ones of this turn
  uint32_t sweep_ = 0;
  bool draining_ = false;
};

}  // namespace penstock::net
