#include <cstring>

#include "http/characters.h"
#include "http/head.h"

namespace penstock::http {
namespace {

// A request line ends with its version, a status line begins with it.
bool NamesHttp(std::string_view line) {
  constexpr std::string_view kName = "HTTP/";
  constexpr size_t kVersionSize = 8;  // HTTP/1.1
  return line.starts_with(kName) ||
         (line.size() > kVersionSize && line.substr(line.size() - kVersionSize).starts_with(kName));
}

}  // namespace

HeadScanner::Status HeadScanner::Fail(int status, std::string_view sentence) {
  error_ = {status, sentence};
  return Status::kError;
}

HeadScanner::Status HeadScanner::TooLarge() {
  if (lines_ == 0) return Fail(414, "the request line is too long");
  return Fail(431, "the headers are too large");
}

HeadScanner::Status HeadScanner::Scan(std::string_view input, const Limits& limits) {
  const char* const begin = input.data();
  // Who speaks something else (TLS, Redis) is told at once, not when its head has taken too long.
  if (looked_at_ == 0 && !input.empty() && !IsTokenCharacter(input.front())) {
    return Fail(400, "the first byte is not one of HTTP/1.1");
  }
  while (looked_at_ < input.size()) {
    const void* found = std::memchr(begin + looked_at_, '\n', input.size() - looked_at_);
    if (found == nullptr) break;
    const size_t line_end = static_cast<size_t>(static_cast<const char*>(found) - begin);
    if (line_end >= limits.max_head_bytes) return TooLarge();
    if (line_end == line_begin_ || begin[line_end - 1] != '\r') {
      return Fail(400, "a line of the head ends without a carriage return");
    }
    const bool empty = line_end == line_begin_ + 1;
    if (!empty && lines_ > 0 && (begin[line_begin_] == ' ' || begin[line_begin_] == '\t')) {
      return Fail(400, "a header is folded over several lines");
    }
    if (lines_ == 0 && !empty && !NamesHttp(input.substr(0, line_end - 1))) {
      return Fail(400, "the first line is not one of HTTP/1.1");
    }
    line_begin_ = looked_at_ = line_end + 1;
    if (empty) return Status::kComplete;
    if (++lines_ > limits.max_headers + 1) return Fail(431, "there are too many headers");
  }
  looked_at_ = input.size();
  return looked_at_ >= limits.max_head_bytes ? TooLarge() : Status::kNeedMore;
}

}  // namespace penstock::http
