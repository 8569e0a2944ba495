// The server's side of one RESP connection, without I/O: bytes in, commands to decide and bytes out.
//
//   read:   n = read(fd, session.ReceiveSpace()); session.Received(n);
//   parse:  loop over session.Next() until it is no Command; a Command is answered by Answer(), at once or later
//   write:  n = write(fd, session.Output()); session.Written(n); if (session.Finished()) close(fd);
//
// What needs no decision (HELLO, AUTH, PING, CLIENT, …, errors) the session answers itself, in its turn. Replies leave
// in the order of the commands; a reply is written under the protocol version its command was read under.
//
// A ticket names a reply that is owed. Answer() returns false when the connection it belonged to is gone, so that what
// was granted is handed back; a later connection of the same session object is never confused with it.
//
// Argument views live until the next ReceiveSpace(), Open() or Detach(), the span of them until the next Next().
//
// Bounds: what a peer sends by Limits, commands in flight and bytes pending by SessionOptions. Behind either of the
// last two Next() answers Paused: read nothing, and call Next() again after answers were given or output was written.
//
// Thread contract: one thread. The options outlive the session.
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
#include "resp/commands.h"
#include "resp/connection_commands.h"
#include "resp/request_parser.h"
#include "resp/writer.h"

namespace penstock::resp {

// Decide it and answer it. The argument count is within the command's bounds; nothing else was looked at.
struct Command {
  CommandId id;
  ReplyTicket ticket;
  std::span<const std::string_view> args;  // the name first
};
struct NeedBytes {};  // everything was consumed: read more
struct Paused {};     // too much is owed or unread: do not read
struct Close {};      // read no more; close the connection when Finished()

using Action = std::variant<NeedBytes, Command, Paused, Close>;

class Session {
 public:
  explicit Session(const SessionOptions& options) : options_(options), replies_(options.max_in_flight) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A new connection: everything of an earlier one is forgotten, its tickets find nothing. `address` is for CLIENT LIST.
  void Open(uint64_t id, std::string_view address);
  // The connection is gone: its tickets find nothing, memory is given back.
  void Detach();

  std::span<char> ReceiveSpace() { return buffer_.Space(); }
  void Received(size_t count) { buffer_.Received(count); }

  Action Next();
  // Orderly shutdown: takes no further command; what was handed out is still answered.
  void Drain() { closing_ = true; }

  // Calls write(Writer&), which writes exactly one whole reply, if the ticket is still owed one; says whether it was.
  template <class Write>
  bool Answer(ReplyTicket ticket, Write&& write) {
    std::string* const out = replies_.Begin(ticket);
    if (out == nullptr) return false;
    Writer writer(*out, switches_.empty() ? state_.protocol : ProtocolOf(ticket.slot));
    write(writer);
    replies_.End(ticket);
    return true;
  }

  // Whether this answer was given and waits for no older one: it stands in Output(), or was written.
  bool Left(ReplyTicket ticket) const {
    return ticket.generation != replies_.generation() || replies_.Answered(ticket.slot);
  }

  // To be written next; changes with Answer(), Next() and Written().
  std::string_view Output() const { return std::string_view(replies_.output()).substr(written_); }
  void Written(size_t count);

  // After Close or Drain: every reply was given and written.
  bool Finished() const { return closing_ && replies_.Empty() && Output().empty(); }

  // Whether Next() would answer Paused: nothing more is to be read, and when it is over Next() is to be called again.
  bool Blocked() const {
    return !closing_ && (replies_.Full() || pending_bytes() >= options_.max_pending_bytes);
  }
  size_t in_flight() const { return replies_.open(); }
  // Whether a part of a command was received: what follows it has its time bound, which the caller keeps.
  bool mid_command() { return !closing_ && !buffer_.unread().empty(); }
  // Commands read so far, those included that the session answered itself.
  uint64_t commands() const { return commands_; }
  // Bytes that wait for the peer to read, or for an older reply.
  size_t pending_bytes() const { return Output().size() + replies_.held_bytes(); }
  const ConnectionState& state() const { return state_; }
  // Changes of the protocol version that are still remembered; for tests.
  size_t version_changes() const { return switches_.size(); }

 private:
  static constexpr size_t kKeptOutputBytes = 64 * 1'024;  // what an idle connection may keep allocated

  void AnswerHere(const CommandSpec* spec, std::span<const std::string_view> args);
  void RefuseAndClose(std::string_view error);
  Protocol ProtocolOf(uint64_t slot);

  // Constant.
  const SessionOptions& options_;

  ConnectionState state_;
  ReceiveBuffer buffer_;
  RequestParser parser_;
  ReplyRing replies_;
  uint64_t commands_ = 0;
  size_t written_ = 0;  // bytes of the ring's output that were written already
  // The slots that changed the protocol version while others were open, ascending; dropped once all before them are
  // answered, at the latest by the next change.
  std::vector<uint64_t> switches_;
  bool closing_ = true;  // until Open()
};

}  // namespace penstock::resp
