#include "http/response_parser.h"

namespace penstock::http {

void ResponseParser::Reset() {
  phase_ = Phase::kIdle;
  failed_ = false;
  interim_ = 0;
  scanner_.Reset();
  chunks_.Reset();
}

ResponseParser::Step ResponseParser::Fail(ParseError error, size_t consumed) {
  error_ = error;
  failed_ = true;
  return {Status::kError, consumed};
}

ResponseParser::Step ResponseParser::Done(size_t consumed) {
  phase_ = Phase::kIdle;
  interim_ = 0;
  scanner_.Reset();
  return {Status::kResponse, consumed};
}

ResponseParser::Step ResponseParser::Parse(std::string_view input, bool to_head) {
  if (failed_) return {Status::kError, 0};
  size_t consumed = 0;
  while (phase_ != Phase::kBody) {
    if (input.empty()) return {Status::kNeedMore, consumed};
    phase_ = Phase::kHead;
    switch (scanner_.Scan(input, limits_)) {
      case HeadScanner::Status::kNeedMore:
        return {Status::kNeedMore, consumed};
      case HeadScanner::Status::kError:
        return Fail(scanner_.error(), consumed);
      case HeadScanner::Status::kComplete:
        break;
    }
    const std::string_view head = input.substr(0, scanner_.head_size());
    head_at_ = head.data();
    to_head_ = to_head;
    if (const auto error = ParseResponseHead(head, to_head, response_, headers_, framing_)) {
      return Fail(*error, consumed);
    }
    if (response_.status / 100 != 1) break;
    if (++interim_ > limits_.max_interim_responses)
      return Fail({400, "too many interim responses"}, consumed);
    consumed += head.size();
    input.remove_prefix(head.size());
    scanner_.Reset();
  }
  if (phase_ != Phase::kBody) {
    if (framing_.kind == BodyFraming::Kind::kNone) return Done(consumed + scanner_.head_size());
    if (framing_.kind == BodyFraming::Kind::kLength && framing_.length > limits_.max_body_bytes) {
      return Fail({413, "the body of the response is too large"}, consumed);
    }
    phase_ = Phase::kBody;
    if (framing_.kind != BodyFraming::Kind::kLength) {
      chunks_.Reset();
      own_body_.clear();
      own_head_.assign(input.substr(0, scanner_.head_size()));
      // The same bytes in another place: this cannot fail.
      (void)ParseResponseHead(own_head_, to_head, response_, headers_, framing_);
      consumed += own_head_.size();
      input.remove_prefix(own_head_.size());
    }
  }
  return ParseBody(input, consumed);
}

ResponseParser::Step ResponseParser::ParseBody(std::string_view input, size_t consumed) {
  const size_t before = input.size();
  if (framing_.kind == BodyFraming::Kind::kLength) {
    const size_t head_size = scanner_.head_size();
    const size_t length = static_cast<size_t>(framing_.length);
    if (before - head_size < length) return {Status::kNeedMore, consumed};
    if (input.data() != head_at_) {
      (void)ParseResponseHead(input.substr(0, head_size), to_head_, response_, headers_, framing_);
    }
    response_.body = input.substr(head_size, length);
    return Done(consumed + head_size + length);
  }
  if (framing_.kind == BodyFraming::Kind::kUntilClose) {
    if (before > limits_.max_body_bytes - own_body_.size()) {
      return Fail({413, "the body of the response is too large"}, consumed);
    }
    own_body_.append(input);
    return {Status::kNeedMore, consumed + before};
  }
  const auto status = chunks_.Decode(input, own_body_, limits_.max_body_bytes, limits_.max_head_bytes);
  consumed += before - input.size();
  if (status == ChunkDecoder::Status::kNeedMore) return {Status::kNeedMore, consumed};
  if (status == ChunkDecoder::Status::kDone) {
    response_.body = own_body_;
    return Done(consumed);
  }
  return Fail({400, "the chunked body of the response is malformed or too large"}, consumed);
}

ResponseParser::Status ResponseParser::Finish() {
  if (failed_) return Status::kError;
  if (phase_ == Phase::kIdle) return Status::kNeedMore;
  if (phase_ == Phase::kBody && framing_.kind == BodyFraming::Kind::kUntilClose) {
    response_.body = own_body_;
    return Done(0).status;
  }
  return Fail({400, "the connection ended within a response"}, 0).status;
}

}  // namespace penstock::http
