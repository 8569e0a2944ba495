// A listening socket of one event loop and the connections that it took. The loops of a server each have one for the
// same endpoint (SO_REUSEPORT) and share its stats.
//
// Connections are objects that are used again: a listener has as many as it ever had open at once.
//
// Thread contract: the constructor before the loop runs, or on its thread; Start, Drain and CloseAll on the loop's
// thread; the destructor after the loop has ended.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"
#include "net/limits.h"
#include "net/loop.h"
#include "net/protocol.h"
#include "net/tls.h"

namespace penstock::net {

// Of one endpoint over all loops. Written by the loops, read by anybody.
struct ListenerStats {
  std::atomic<uint32_t> open{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> timed_out{0};
  std::atomic<uint64_t> failed_handshakes{0};
  std::atomic<uint64_t> accept_pauses{0};  // no file descriptor, or at max_connections
};

struct ListenerOptions {
  Limits limits;
  const TlsServer* tls = nullptr;  // null: plain
  ProtocolFactory factory;
  ListenerStats* stats = nullptr;  // outlives the listener
};

class ListenerImpl;

class Listener {
 public:
  // Takes the file descriptor (OpenListeningSocket).
  Listener(Loop& loop, int fd, ListenerOptions options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Fails when the loop cannot watch the socket: peers would wait in its backlog for ever.
  Result<void> Start();
  // Takes what the kernel has accepted already, stops listening, and lets every connection answer what it was asked
  // and close.
  void Drain();
  // The end of patience.
  void CloseAll();

 private:
  std::unique_ptr<ListenerImpl> impl_;
};

}  // namespace penstock::net
