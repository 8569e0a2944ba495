// What connects a protocol's session to the verbs: the driver of a connection (server/) hands every parsed
// request to a handler, and says Flush once when a read batch has been parsed, so that everything a peer
// pipelined is one engine batch.
//
// A handler answers a request exactly once: inside Handle (a health check, a malformed body), inside Flush (a
// decision of the memory engine), or later (a store over the network, a permit that waits). A slot says where
// the answer goes; it may be kept until then, even though the connection closes meanwhile:
//   - `session` lives as long as its event loop. Sessions are reused by later connections, and the ticket's
//     generation tells: an answer for an earlier generation finds nothing to write to and changes nothing.
//   - an answer that comes outside Handle and Flush is followed by peer->ReplyReady(), which sends it.
//
// One handler a protocol and event loop, shared by all the loop's connections. What belongs to one connection
// (authenticated, protocol version) stands in its session.
//
// Thread contract: all calls on the loop's thread. Nothing here may block or throw.
#pragma once

#include <cstdint>

#include "base/address.h"
#include "base/reply_ring.h"

namespace penstock::http {
struct Request;
class Session;
}  // namespace penstock::http
namespace penstock::resp {
struct Command;
class Session;
}  // namespace penstock::resp

namespace penstock::api {

// The other end of a connection. Lives as long as the event loop, like the session it belongs to.
class Peer {
 public:
  virtual ~Peer() = default;
  // An answer was completed outside Handle and Flush. Harmless after the connection closed.
  virtual void ReplyReady() noexcept = 0;
  // Whose connection it is now; null for a Unix socket. Proxies are not looked through here.
  virtual const IpAddress* address() const = 0;

  // The handler's (turn.h): how much it has asked for that is not answered, and how much of that may wait in a queue.
  uint32_t owed = 0;
  uint32_t patient = 0;
};

template <class Session>
struct Slot {
  Session* session = nullptr;
  Peer* peer = nullptr;
  ReplyTicket ticket;
};
using HttpSlot = Slot<http::Session>;
using RespSlot = Slot<resp::Session>;

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The request's views are valid during the call only.
  virtual void Handle(const http::Request& request, HttpSlot slot) noexcept = 0;
  // Decides everything that Handle has queued. Called after every read batch, also if nothing was queued.
  virtual void Flush() noexcept = 0;
  // The connection is gone, its session not detached yet: what it asked for is taken back, as far as it was not done.
  virtual void Closed(Peer&) noexcept {}
  // Whether something that the connection asked for may be waiting in a queue, for up to a minute.
  virtual bool Waits(const Peer&) const noexcept { return false; }
};

class RespHandler {
 public:
  virtual ~RespHandler() = default;
  // One of the deciding commands, with as many arguments as it may have; the session has answered all others. The views
  // are valid during the call only.
  virtual void Handle(const resp::Command& command, RespSlot slot) noexcept = 0;
  virtual void Flush() noexcept = 0;
  virtual void Closed(Peer&) noexcept {}
  virtual bool Waits(const Peer&) const noexcept { return false; }
};

}  // namespace penstock::api
