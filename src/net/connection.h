// One connection: a socket, perhaps TLS on it, and a protocol. Reads when told that there is something to read,
// writes at once and waits for room only when the kernel took less than it was given. Internal to net.
//
// Life: Open -> (handshake) -> open -> (lingering) -> closed -> used again.
//
// Thread contract: the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/address.h"
#include "base/time.h"
#include "net/loop_impl.h"
#include "net/protocol.h"
#include "net/tls.h"

namespace penstock::net {

class ListenerImpl;

class Connection final : public Wire, public Watched {
 public:
  Connection(ListenerImpl& listener, std::unique_ptr<Protocol> protocol);
  ~Connection() override;

  // Takes the socket. The connection stands in the listener's list already.
  void Open(int fd, std::optional<IpAddress> address);
  // What was put off to the end of this turn of the loop.
  void Turn();
  // Looks at the time-outs.
  void Sweep();
  void Drain();
  void Close();

  void OnReady(uint32_t events) noexcept override;
  void OutputReady() noexcept override;
  const IpAddress* address() const noexcept override { return address_ ? &*address_ : nullptr; }

  bool reusable() const { return state_ == State::kClosed && !deferred_; }

  size_t live_index = 0;  // the listener's

 private:
  enum class State : uint8_t { kClosed, kHandshake, kOpen, kLingering };
  enum class IoStatus : uint8_t { kBytes, kAgain, kEnd, kFailed };
  struct IoResult {
    IoStatus status;
    size_t bytes = 0;
  };

  IoResult Read(std::span<char> buffer);
  IoResult Write(std::string_view bytes);
  IoResult FromTls(TlsStream::Io io);

  void OnReadable();
  void OnEnd();
  void OnWritable();
  bool ContinueHandshake();
  // One read, straight to where the protocol wants it. False: the connection failed and was closed.
  bool ReceiveOnce();
  void DiscardInput();
  // After anything happened: sends, goes on with held input, arms the next waits or closes.
  void Advance();
  bool SendOutput();
  void BeginLinger();
  void NoteStage(const Wants& wants);
  // Asks the loop to tell of these events from now on, and of no others.
  void WaitFor(uint32_t events);
  void Defer();
  bool Expired(Micros limit, uint32_t since) const;

  // Constant after construction.
  ListenerImpl& listener_;
  const std::unique_ptr<Protocol> protocol_;

  std::unique_ptr<TlsStream> tls_;
  std::optional<IpAddress> address_;
  int fd_ = -1;
  State state_ = State::kClosed;
  uint32_t events_ = 0;       // what the loop tells of
  bool blocked_ = false;      // output waits for room
  bool deferred_ = false;     // stands in the listener's list of this turn
  bool in_protocol_ = false;  // a call of the protocol is running
  bool peer_ended_ = false;   // the peer sends no more
  bool closing_ = false;      // close when the output is sent
  bool draining_ = false;
  bool read_needs_write_ = false;  // TLS: the read waits for room to write
  Stage stage_ = Stage::kIdle;
  uint64_t progress_ = 0;
  uint32_t since_ = 0;        // sweep at which the stage (or the state) began
  uint32_t write_since_ = 0;  // sweep of the last progress in writing
  size_t discarded_ = 0;      // while lingering
};

}  // namespace penstock::net
