// What net asks of a protocol: bytes in, bytes out, and a word on how to go on. A protocol never sees a socket; net
// never sees a message. To serve one more protocol is to write one more Protocol.
//
// One Protocol object serves one connection at a time and then, after Close(), the next one: net keeps it (and the
// capacity of its buffers) until the event loop ends, so that an answer that comes after its connection closed finds
// an object that knows it is too late.
//
// Thread contract: all calls on the loop's thread, none from inside another. Nothing here throws or blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/address.h"

namespace penstock::net {

// The socket's side, as far as a protocol may touch it.
class Wire {
 public:
  virtual ~Wire() = default;
  // Output() grew, or what held back input is over, outside of a call of net's. Harmless inside one and after the
  // connection closed. Cheap: many calls of one turn of the loop become one write.
  virtual void OutputReady() noexcept = 0;
  // Whose connection this is; null for a Unix socket. Valid between Open and Close.
  virtual const IpAddress* address() const noexcept = 0;
};

// What the connection waits for; each has its time-out (Limits).
enum class Stage : uint8_t {
  kIdle,   // for the first byte of a request
  kHead,   // for the rest of a request's head, or of a RESP command
  kBody,   // for the rest of a request's body
  kReply,  // for us: nothing of the peer's is missing
};

// How to go on after a call.
struct Wants {
  bool read = true;     // more bytes are welcome
  bool resume = false;  // input was held back and could be looked at now: call Received(0)
  bool close = false;   // close as soon as Output() is sent
  bool open = false;    // answers are still to come
  bool end = false;     // no more bytes, but the peer's end is to be told at once
  Stage stage = Stage::kIdle;
  uint64_t progress =
      0;  // changes whenever a request was taken out of the input: the next one has its own time
};

class Protocol {
 public:
  virtual ~Protocol() = default;

  // A connection begins. `wire` is the same for all connections of this object.
  virtual void Open(Wire& wire) noexcept = 0;
  // Where the next bytes go; not empty while wants().read.
  virtual std::span<char> ReceiveSpace() noexcept = 0;
  // So many bytes were put at the front of the last ReceiveSpace(). What can be answered at once stands in Output()
  // when it returns. 0: look again at what was held back.
  virtual void Received(size_t count) noexcept = 0;
  // The peer will send nothing more. Answers to what it sent are still written.
  virtual void ReceivedEnd() noexcept = 0;
  // A time-out of `stage` passed. The protocol may leave a last word in Output(); the connection is closed after it.
  virtual void TimedOut(Stage stage) noexcept = 0;
  // The server shuts down: answer what was asked, tell the peer where the protocol has a word for it, ask for nothing
  // more. Wants::close is to follow when the last answer is given.
  virtual void Drain() noexcept = 0;
  // The connection is gone. What is still to be answered has nobody to go to.
  virtual void Close() noexcept = 0;

  virtual Wants wants() const noexcept = 0;
  // What to send next. The view lasts until the next call that is not const.
  virtual std::string_view Output() const noexcept = 0;
  // So many bytes of its front were sent, at least one.
  virtual void Written(size_t count) noexcept = 0;
};

using ProtocolFactory = std::function<std::unique_ptr<Protocol>()>;

}  // namespace penstock::net
