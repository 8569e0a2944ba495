// The listener as its connections see it. Internal to net.
//
// Thread contract: as listener.h says; what connections call, on the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/connection.h"
#include "net/listener.h"
#include "net/loop_impl.h"

namespace penstock::net {

class ListenerImpl final : public Watched {
 public:
  ListenerImpl(LoopImpl& loop, int fd, ListenerOptions options);
  ~ListenerImpl() override;
  ListenerImpl(const ListenerImpl&) = delete;
  ListenerImpl& operator=(const ListenerImpl&) = delete;

  Result<void> Start();
  void Drain();
  void CloseAll();
  void OnReady(uint32_t events) noexcept override;

  // For connections.
  LoopImpl& loop() { return loop_; }
  const ListenerOptions& options() const { return options_; }
  uint32_t sweep() const { return sweep_; }  // counts the sweeps
  void Defer(Connection& connection);        // its Turn() comes after what is now under way
  void Closed(Connection& connection);
  void Release(Connection& connection);  // to be used again, if it may

 private:
  enum class Accepting : uint8_t { kGoesOn, kEnough, kPause };

  Accepting AcceptOne();
  void AcceptMany();
  void Pause();
  void Sweep();
  void RunDeferred();
  Connection& Take();

  LoopImpl& loop_;
  const ListenerOptions options_;
  int socket_;  // -1: no longer listening
  // Invariant: live_[c.live_index] == &c for every open connection; free_ holds the reusable ones; a closed
  // connection whose turn is still to come stands in neither.
  std::vector<std::unique_ptr<Connection>> all_;
  std::vector<Connection*> live_;
  std::vector<Connection*> free_;
  std::vector<Connection*> deferred_;
  std::vector<Connection*> running_;  // deferred ones of this turn
  uint32_t sweep_ = 0;
  bool draining_ = false;
  bool told_ = false;  // the log says already that accepting fails
};

}  // namespace penstock::net
