#include "http/request_parser.h"

#include "base/ascii.h"

namespace penstock::http {
namespace {

void ClearKeepingLittle(std::string& text, size_t keep_capacity) {
  text.clear();
  if (text.capacity() > keep_capacity) text.shrink_to_fit();
}

}  // namespace

void RequestParser::Reset() {
  phase_ = Phase::kIdle;
  failed_ = false;
  continue_due_ = false;
  scanner_.Reset();
  chunks_.Reset();
  ClearKeepingLittle(own_head_, 0);
  ClearKeepingLittle(own_body_, 0);
}

RequestParser::Step RequestParser::Fail(ParseError error, size_t consumed) {
  error_ = error;
  failed_ = true;
  continue_due_ = false;
  return {Status::kError, consumed};
}

RequestParser::Step RequestParser::Done(size_t consumed) {
  phase_ = Phase::kIdle;
  continue_due_ = false;
  scanner_.Reset();
  return {Status::kRequest, consumed};
}

bool RequestParser::TakeContinue() {
  const bool due = continue_due_;
  continue_due_ = false;
  return due;
}

bool RequestParser::HeadIsFine(std::string_view head) {
  head_at_ = head.data();
  if (const auto error = ParseRequestHead(head, request_, headers_, framing_)) {
    error_ = *error;
    return false;
  }
  return true;
}

RequestParser::Step RequestParser::Parse(std::string_view input) {
  if (failed_) return {Status::kError, 0};
  size_t consumed = 0;
  if (phase_ == Phase::kIdle) {
    if (own_body_.capacity() > kKeepCapacity) ClearKeepingLittle(own_body_, 0);
    // Empty lines before a request line are the ends of bodies that some clients send too much (RFC 9112, 2.2).
    while (input.starts_with("\r\n")) {
      input.remove_prefix(2);
      consumed += 2;
    }
    if (input.empty() || input == "\r") return {Status::kNeedMore, consumed};
    phase_ = Phase::kHead;
  }
  if (phase_ == Phase::kBody) return ParseBody(input, consumed);

  switch (scanner_.Scan(input, limits_)) {
    case HeadScanner::Status::kNeedMore:
      return {Status::kNeedMore, consumed};
    case HeadScanner::Status::kError:
      return Fail(scanner_.error(), consumed);
    case HeadScanner::Status::kComplete:
      break;
  }
  if (!HeadIsFine(input.substr(0, scanner_.head_size()))) return Fail(error_, consumed);
  if (framing_.kind == BodyFraming::Kind::kNone) return Done(consumed + scanner_.head_size());

  if (framing_.kind == BodyFraming::Kind::kLength && framing_.length > limits_.max_body_bytes) {
    return Fail({413, "the body is too large"}, consumed);
  }
  const std::string_view expect = request_.Get(Known::kExpect);
  if (!expect.empty() && !request_.http10) {
    if (!EqualsIgnoringCase(expect, "100-continue"))
      return Fail({417, "no expectation but 100-continue is met"}, consumed);
    continue_due_ = true;
  }
  phase_ = Phase::kBody;
  if (framing_.kind == BodyFraming::Kind::kChunked) {
    chunks_.Reset();
    ClearKeepingLittle(own_body_, kKeepCapacity);
    own_head_.assign(input.substr(0, scanner_.head_size()));
    HeadIsFine(own_head_);
    consumed += own_head_.size();
    input.remove_prefix(own_head_.size());
  }
  return ParseBody(input, consumed);
}

RequestParser::Step RequestParser::ParseBody(std::string_view input, size_t consumed) {
  if (framing_.kind == BodyFraming::Kind::kChunked) return ParseChunked(input, consumed);

  const size_t head_size = scanner_.head_size();
  const size_t length = static_cast<size_t>(framing_.length);
  if (input.size() > head_size) continue_due_ = false;
  if (input.size() - head_size < length) return {Status::kNeedMore, consumed};
  // The bytes may have moved since the head was read; the same bytes give the same head.
  if (input.data() != head_at_) HeadIsFine(input.substr(0, head_size));
  request_.body = input.substr(head_size, length);
  return Done(consumed + head_size + length);
}

RequestParser::Step RequestParser::ParseChunked(std::string_view input, size_t consumed) {
  if (!input.empty()) continue_due_ = false;
  const size_t before = input.size();
  const auto status = chunks_.Decode(input, own_body_, limits_.max_body_bytes, limits_.max_head_bytes);
  consumed += before - input.size();
  switch (status) {
    case ChunkDecoder::Status::kNeedMore:
      return {Status::kNeedMore, consumed};
    case ChunkDecoder::Status::kDone:
      request_.body = own_body_;
      return Done(consumed);
    case ChunkDecoder::Status::kMalformed:
      return Fail({400, "the chunked body is malformed"}, consumed);
    case ChunkDecoder::Status::kBodyTooLarge:
      return Fail({413, "the body is too large"}, consumed);
    case ChunkDecoder::Status::kFramingTooLarge:
      return Fail({431, "the extensions or trailers of the chunked body are too large"}, consumed);
  }
  return Fail({400, "the chunked body is malformed"}, consumed);
}

}  // namespace penstock::http
