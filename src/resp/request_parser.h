// The server's side of RESP: one command at a time out of a receive buffer. Arguments are views into that
// buffer; nothing is copied, and nothing is allocated for up to 16 arguments.
//
// A command is a multibulk (`*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n`) or an inline line (`ECHO "x"\r\n`) with Redis'
// quoting, whose escapes are decoded in place: that is why the buffer is handed in writable. Empty lines and
// `*0` are skipped.
//
// The parser remembers how far it came, so that a command fed byte by byte costs the same in sum as one fed
// whole: after kNeedMore the next call must bring the same bytes (at any address) with more behind them.
// After kDone or kError the next call starts a new command. Errors are final for the connection: say error(),
// then close.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resp/protocol.h"

namespace penstock::resp {

// What a peer may send. All bounds are inclusive.
struct Limits {
  uint32_t max_args = 1'024;  // arguments of one command, its name included
  uint32_t max_bulk_bytes =
      256 * 1'024;  // one argument; longer keys than a limit takes get a clear error upstairs
  uint32_t max_command_bytes = 1'024 * 1'024;  // one command as it stands on the wire
  uint32_t max_inline_bytes = 64 * 1'024;      // one inline line
  bool authenticated = true;                   // only the wording of a refusal
};

// Whoever has not shown the token may say little: enough for HELLO, AUTH and a name.
inline constexpr Limits kLimitsBeforeAuth{.max_args = 10,
                                          .max_bulk_bytes = 16 * 1'024,
                                          .max_command_bytes = 32 * 1'024,
                                          .max_inline_bytes = 16 * 1'024,
                                          .authenticated = false};

class RequestParser {
 public:
  RequestParser();

  // `unread` starts at the first byte not yet consumed.
  ParseResult Parse(std::span<char> unread, const Limits& limits);

  // After kDone: the arguments, at least one, the command's name first. The views live as long as the bytes
  // in the buffer, the span until the next Parse().
  std::span<const std::string_view> args() const { return {args_.data(), count_}; }

  // After kError: `Protocol error: …`, in Redis' words where Redis has words for it.
  std::string_view error() const { return error_; }

  // Forgets a half-read command (a new connection).
  void Reset();

 private:
  struct Piece {
    uint32_t offset;  // from the command's first byte
    uint32_t length;
  };

  ParseStatus ParseMultibulk(char* command, size_t size, const Limits& limits);
  ParseStatus ParseInline(char* command, size_t size, const Limits& limits);
  ParseStatus RefuseCount(int64_t announced, const Limits& limits);
  ParseStatus RefuseBulk(int64_t length, const Limits& limits);
  ParseStatus Refuse(std::string_view what);
  void AddPiece(size_t offset, size_t length);

  // Invariant: pieces_[0 .. count_) are the arguments read so far, pos_ is where the next one starts;
  // announced_ is 0 until the multibulk header was read.
  std::vector<Piece> pieces_;
  std::vector<std::string_view> args_;
  uint32_t count_ = 0;
  uint32_t announced_ = 0;
  size_t pos_ = 0;      // from the command's first byte; after kDone the command's size
  size_t scanned_ = 0;  // inline: bytes known to hold no line end
  bool fresh_ = true;   // the next call starts a new command
  std::string error_;
};

}  // namespace penstock::resp
