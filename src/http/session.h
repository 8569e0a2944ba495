// The server's side of one HTTP/1.1 connection, without I/O: bytes in, requests to answer and bytes out.
//
//   read:   n = read(fd, session.ReceiveSpace()); n > 0 ? session.Received(n) : session.PeerFinished();
//   parse:  loop over session.Next() until it is no Incoming; each is answered by Answer(), at once or later
//   write:  n = write(fd, session.Output()); session.Written(n); if (session.Finished()) close it
//
//   session.Answer(ticket, [](std::string& out, const ReplyShape& shape) {
//     ResponseWriter writer(out, shape, 200);
//     writer.Body("text/plain", "ok\n");
//   });
//
// Answers leave in the order of the requests (base/reply_ring.h): the one that is next is written straight into the
// output. A ticket outlives its connection: after Detach() or Open() it finds nothing, Answer() says false, and what was
// granted can be handed back. What breaks the protocol or a bound the session answers itself (problem+json), then
// closes; so does "Connection: close". Close gently: shut down the sending side and read on for a moment, or the
// peer's unread bytes become a reset that takes the answer with it.
//
// Time bounds are the caller's: phase() says what is waited for; Refuse(408, …) ends a head or body that takes too long.
// Bounds: what a peer sends by Limits, requests in flight and bytes pending by SessionOptions. Behind either of the last
// two Next() answers Paused: read nothing, and call Next() again after answers were given or output was written.
//
// Thread contract: one thread. The options outlive the session. Request views live until the next call of Next(),
// ReceiveSpace(), Open() or Detach().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/receive_buffer.h"
#include "base/reply_ring.h"
#include "http/message.h"
#include "http/request_parser.h"
#include "http/response_writer.h"

namespace penstock::http {

struct SessionOptions {
  Limits limits;
  uint32_t max_in_flight = 1'000;            // requests of one connection whose answers are owed
  size_t max_pending_bytes = 1'024 * 1'024;  // answers a peer may leave unread before it is read no more
  // What the Date header says (AppendHttpDate), kept true by the session's own thread; null: no such header.
  const std::string* date = nullptr;
};

// Answer it. The request is complete, its body with it.
struct Incoming {
  const Request* request;
  ReplyTicket ticket;
};
struct NeedBytes {};  // everything was consumed: read more
struct Paused {};     // too much is owed or unread: do not read
struct Close {};      // read no more; close the connection when Finished()

using Action = std::variant<NeedBytes, Incoming, Paused, Close>;

// What a connection waits for, so that the right time bound runs.
enum class Phase : uint8_t {
  kIdle,       // the next request
  kHead,       // the rest of a head
  kBody,       // the rest of a body
  kAnswering,  // our own answers, or the peer's reading of them
  kClosing,    // the last answers to be given and written
};

class Session {
 public:
  explicit Session(const SessionOptions& options)
      : options_(options), parser_(options.limits), replies_(options.max_in_flight) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A new connection: everything of an earlier one is forgotten, its tickets find nothing.
  void Open();
  // The connection is gone: its tickets find nothing, memory is given back.
  void Detach();

  std::span<char> ReceiveSpace() { return buffer_.Space(); }
  void Received(size_t count) { buffer_.Received(count); }
  // The peer sends no more (end of file). What was received is still answered.
  void PeerFinished() { peer_finished_ = true; }

  Action Next();

  // Calls write(std::string& out, const ReplyShape& shape), which appends exactly one whole response (one
  // ResponseWriter), if the ticket is still owed one; says whether it was.
  template <class Write>
  bool Answer(ReplyTicket ticket, Write&& write) {
    std::string* const out = replies_.Begin(ticket);
    if (out == nullptr) return false;
    write(*out, ShapeOf(ticket.slot));
    replies_.End(ticket);
    if (continue_due_) SendContinue();
    return true;
  }

  // Ends the connection for the peer's fault: one more answer, with this status, behind those that are owed.
  // Nothing if it is closing already.
  void Refuse(int status, std::string_view sentence);
  // Orderly shutdown: takes no further request; what was handed out is still answered.
  void Drain() { stopped_ = true; }

  // Whether this answer was given and waits for no older one: it stands in Output(), or was written.
  bool Left(ReplyTicket ticket) const {
    return ticket.generation != replies_.generation() || replies_.Answered(ticket.slot);
  }

  // To be written next; changes with Answer(), Next(), Refuse() and Written().
  std::string_view Output() const { return std::string_view(replies_.output()).substr(written_); }
  void Written(size_t count);

  // After Close or Drain: every answer was given and written.
  bool Finished() const { return stopped_ && replies_.Empty() && Output().empty(); }

  Phase phase() const;
  size_t in_flight() const { return replies_.open(); }
  // Bytes that wait for the peer to read, or for an older answer.
  size_t pending_bytes() const { return Output().size() + replies_.held_bytes(); }

 private:
  static constexpr size_t kKeptOutputBytes = 64 * 1'024;  // what an idle connection may keep allocated

  ReplyShape ShapeOf(uint64_t slot) const;
  ReplyTicket OpenSlot(bool head_only, bool http10);
  void SendContinue();

  // Constant.
  const SessionOptions& options_;

  ReceiveBuffer buffer_;
  RequestParser parser_;
  ReplyRing replies_;
  size_t written_ = 0;  // bytes of the ring's output that were written already
  // What the answers to the open slots must know, at slot & (size - 1); the size is a power of two, at least as
  // many as are open.
  struct SlotShape {
    bool head_only;
    bool http10;
  };
  std::vector<SlotShape> shapes_;
  uint64_t slots_opened_to_ = 0;  // one behind the last slot
  bool continue_due_ = false;     // a peer waits for "100 Continue", which may not overtake older answers
  bool peer_finished_ = false;
  bool paused_ = false;  // by the last Next()
  bool stopped_ = true;  // no request is taken any more; until Open()
};

}  // namespace penstock::http
