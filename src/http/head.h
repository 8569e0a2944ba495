// The head of a message, for the two parsers of this room only: where it ends, and what stands in it.
//
// The scanner finds the end line by line, remembering where it was, and refuses what Beast would let pass or wait for:
// a line end without CR, a folded header, too many lines, too many bytes. So the outcome depends on the bytes
// alone and not on how they were cut into reads. Only a complete head goes to Beast's parser (head.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace penstock::http {

class HeadScanner {
 public:
  enum class Status : uint8_t { kNeedMore, kComplete, kError };

  // Looks on from where it stopped; `input` begins at the head's first byte and holds at least what it held before.
  Status Scan(std::string_view input, const Limits& limits);

  size_t head_size() const { return line_begin_; }  // once complete
  const ParseError& error() const { return error_; }
  void Reset() { *this = HeadScanner(); }

 private:
  Status Fail(int status, std::string_view sentence);
  Status TooLarge();

  size_t looked_at_ = 0;   // no line ends in [line_begin_, looked_at_)
  size_t line_begin_ = 0;  // start of the line that is being looked at
  size_t lines_ = 0;       // complete lines before it
  ParseError error_;
};

// How the body that follows is framed.
struct BodyFraming {
  enum class Kind : uint8_t { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  uint64_t length = 0;
};

// Both fill `out` with views into `head` (a complete head as the scanner found it) and `headers` with its lines.
// Nothing: all is well.
std::optional<ParseError> ParseRequestHead(std::string_view head, Request& out, std::vector<Header>& headers,
                                           BodyFraming& framing);
// `bodyless`: the request was HEAD.
std::optional<ParseError> ParseResponseHead(std::string_view head, bool bodyless, Response& out,
                                            std::vector<Header>& headers, BodyFraming& framing);

}  // namespace penstock::http
