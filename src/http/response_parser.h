// The client's side of HTTP/1.1: bytes in, responses out, one at a time; for the load generator, the command line and
// tests.
//
// Used like RequestParser: give Parse() what has come and was not consumed. Interim responses (1xx) are passed over.
// A response without a length ends with the connection: tell Finish() then. The same rules about line ends, folding and
// lengths as for requests; errors are sentences, their status means nothing here.
//
// Thread contract: one thread. A Response is valid until the next call, and as long as the bytes given.
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

class ResponseParser {
 public:
  enum class Status : uint8_t { kNeedMore, kResponse, kError };
  struct Step {
    Status status;
    size_t consumed;
  };

  explicit ResponseParser(const Limits& limits = {}) : limits_(limits) {}
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  // `to_head`: the request that this response answers was HEAD, so no body follows. The same for every call until a
  // response has come out.
  Step Parse(std::string_view input, bool to_head = false);

  // The connection has ended. kResponse if that completes one, kNeedMore if nothing had begun, else kError.
  Status Finish();

  const Response& response() const { return response_; }
  const ParseError& error() const { return error_; }
  void Reset();

 private:
  enum class Phase : uint8_t { kIdle, kHead, kBody };

  Step Fail(ParseError error, size_t consumed);
  Step ParseBody(std::string_view input, size_t consumed);
  Step Done(size_t consumed);

  const Limits limits_;
  Phase phase_ = Phase::kIdle;
  bool failed_ = false;
  size_t interim_ = 0;
  HeadScanner scanner_;
  BodyFraming framing_;
  std::vector<Header> headers_;
  Response response_;
  ParseError error_;
  ChunkDecoder chunks_;
  bool to_head_ = false;
  const char* head_at_ = nullptr;  // where the bytes lay that response_ looks into
  // For bodies that are consumed piece by piece (chunked, until close): the head moves here.
  std::string own_head_;
  std::string own_body_;
};

}  // namespace penstock::http
