// One connection of a link: a stream, the greeting, and what is in flight on it. Bytes and errors come in by the
// stream's calls, so a test needs neither sockets nor time. Internal to the link.
//
// Life: dialled -> greeting -> greeted -> closed. It ends by a call of Ended, or by Close.
//
// Thread contract: one event loop's thread. The owner may call anything, Close too, inside the calls that it gets, and
// keeps the connection alive by a shared_ptr no longer than it likes: the connection holds itself while it works.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dialer.h"
#include "base/receive_buffer.h"
#include "engine/redis/server_link_fifo.h"
#include "engine/redis/server_link_greeting.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis {

class LinkConnection;

class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  // The server's kernel took the connection; the greeting is on its way.
  virtual void Connected(LinkConnection& connection) noexcept = 0;
  virtual void Greeted(LinkConnection& connection) noexcept = 0;
  // An exchange's reply; its entry is out of the line already. The nodes live until this returns.
  virtual void Replied(LinkConnection& connection, const InFlight& entry,
                       std::span<const resp::ReplyNode> nodes, SteadyTime received) noexcept = 0;
  // The script could not be loaded.
  virtual void NotLoaded(LinkConnection& connection, std::string_view error) noexcept = 0;
  virtual void TimeTold(EngineTime engine, SteadyTime received) noexcept = 0;
  // What one read brought is worked off.
  virtual void Paused(LinkConnection& connection) noexcept = 0;
  // It could not be made or is broken: to be closed, and what is in flight is the owner's to tell.
  virtual void Ended(LinkConnection& connection, std::string_view why) noexcept = 0;
};

class LinkConnection final : public StreamHandler, public std::enable_shared_from_this<LinkConnection> {
 public:
  LinkConnection(ConnectionOwner& owner, const Clock& clock, const Options& options,
                 std::span<const Script> scripts);
  LinkConnection(const LinkConnection&) = delete;
  LinkConnection& operator=(const LinkConnection&) = delete;

  void Dial(Dialer& dialer, const DialTarget& target);
  bool greeted() const { return greeted_; }
  Micros max_lag() const { return greeting_.max_lag(); }

  // Writes the exchange's command. Precondition: greeted.
  void Submit(Exchange& exchange, bool asking);
  // The same for one whose script the server did not know: it is loaded before, unless it is being loaded.
  void SubmitAgain(const InFlight& entry);

  Fifo& fifo() { return fifo_; }
  size_t exchanges() const { return exchanges_; }  // of fifo()
  size_t unsent() const { return stream_ ? stream_->unsent() : 0; }

  // Nothing is called after it. What is still in fifo() stays there.
  void Close();
  // After Close: whether the command was given to the kernel as a whole, so that the server may have run it.
  bool WasSent(const InFlight& entry) const { return entry.end <= given_; }

  void Connected() noexcept override;
  std::span<char> ReceiveSpace() noexcept override { return buffer_.Space(); }
  void Received(size_t count) noexcept override;
  void Closed(std::string_view why) noexcept override;

 private:
  void Write(std::string_view bytes);
  void PushGreeting();
  void PushExchange(Exchange& exchange, uint8_t loads);
  void LoadScript(const Script& script);
  // False: the connection is over.
  bool Answered(std::span<const resp::ReplyNode> nodes, SteadyTime received);
  bool GreetingAnswered(std::span<const resp::ReplyNode> nodes, SteadyTime received);
  void End(std::string_view why);

  // Constant after construction.
  ConnectionOwner& owner_;
  const Clock& clock_;

  std::unique_ptr<Stream> stream_;  // null before Dial and after Close
  ReceiveBuffer buffer_;
  resp::ReplyParser parser_;
  Greeting greeting_;
  bool greeted_ = false;
  bool closed_ = false;
  // Invariant: fifo_ has an entry for every command whose reply is to come; exchanges_ of them are kExchange.
  Fifo fifo_;
  size_t exchanges_ = 0;
  std::vector<const Script*> loading_;  // SCRIPT LOAD is in flight
  std::string scratch_;
  uint64_t written_ = 0;  // bytes given to the stream
  uint64_t given_ = 0;    // of them to the kernel; known when closed
};

}  // namespace penstock::engine::redis
