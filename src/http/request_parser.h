// The server's side of HTTP/1.1: bytes in, requests out, one at a time.
//
// Give Parse() everything that has come and was not consumed; it yields the first request of it, or asks for more.
// Then drop `consumed` bytes and call again with the rest (and what has come since), so pipelined requests come
// out one by one. Nothing is copied where a request lies in one piece; a chunked one is put together inside.
//
// What is refused (as a ParseError with its status; the connection cannot go on after it): lines without CR, folded
// headers, white space before a colon, control characters, two lengths or length and chunked together, a coding
// other than chunked, a missing or second Host, and whatever passes Limits.
//
// Thread contract: one thread. A Request is valid until the next Parse() or Reset(), and as long as the bytes given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http/chunked.h"
#include "http/head.h"
#include "http/message.h"

namespace penstock::http {

class RequestParser {
 public:
  enum class Status : uint8_t { kNeedMore, kRequest, kError };
  struct Step {
    Status status;
    size_t consumed;  // drop so many bytes from the front, whatever the status
  };
  // What the bytes so far have begun: the time bounds of net/ differ.
  enum class Phase : uint8_t { kIdle, kHead, kBody };

  explicit RequestParser(const Limits& limits = {}) : limits_(limits) {}
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  Step Parse(std::string_view input);

  const Request& request() const { return request_; }  // after kRequest
  const ParseError& error() const { return error_; }   // after kError, which is repeated until Reset()
  Phase phase() const { return phase_; }

  // Once for each request that waits with its body for "100 Continue": true if it waits now.
  bool TakeContinue();

  // Ready for another connection.
  void Reset();

 private:
  // A buffer that once grew beyond this gives its memory back.
  static constexpr size_t kKeepCapacity = 16 * 1024;

  Step Fail(ParseError error, size_t consumed);
  Step ParseBody(std::string_view input, size_t consumed);
  Step ParseChunked(std::string_view input, size_t consumed);
  Step Done(size_t consumed);
  bool HeadIsFine(std::string_view head);

  const Limits limits_;
  Phase phase_ = Phase::kIdle;
  bool failed_ = false;
  bool continue_due_ = false;
  HeadScanner scanner_;
  BodyFraming framing_;
  const char* head_at_ = nullptr;  // where the bytes lay that request_ looks into
  std::vector<Header> headers_;
  Request request_;
  ParseError error_;

  // Only for a chunked request: its head moves here, as its bytes are consumed piece by piece.
  ChunkDecoder chunks_;
  std::string own_head_;
  std::string own_body_;
};

}  // namespace penstock::http
