#include "resp/request_parser.h"

#include <algorithm>
#include <cstring>

#include "resp/inline_args.h"

namespace penstock::resp {
namespace {

constexpr size_t kRoomAtFirst = 16;  // arguments without an allocation

}  // namespace

RequestParser::RequestParser() : pieces_(kRoomAtFirst), args_(kRoomAtFirst) {}

void RequestParser::Reset() {
  count_ = 0;
  announced_ = 0;
  pos_ = 0;
  scanned_ = 0;
}

ParseResult RequestParser::Parse(std::span<char> unread, const Limits& limits) {
  size_t skipped = 0;
  for (;;) {
    if (fresh_) Reset();
    fresh_ = false;
    char* const command = unread.data() + skipped;
    const size_t size = unread.size() - skipped;
    if (size == 0) return {ParseStatus::kNeedMore, skipped};
    const ParseStatus status =
        *command == '*' ? ParseMultibulk(command, size, limits) : ParseInline(command, size, limits);
    if (status == ParseStatus::kNeedMore) return {status, skipped};
    fresh_ = true;
    if (status == ParseStatus::kError) return {status, skipped};
    if (count_ == 0) {  // an empty line, `*0`, `*-1`
      skipped += pos_;
      continue;
    }
    if (args_.size() < count_) args_.resize(pieces_.size());
    for (uint32_t i = 0; i < count_; ++i) {
      args_[i] = std::string_view(command + pieces_[i].offset, pieces_[i].length);
    }
    return {ParseStatus::kDone, skipped + pos_};
  }
}

ParseStatus RequestParser::ParseMultibulk(char* command, size_t size, const Limits& limits) {
  const char* const end = command + size;
  if (announced_ == 0) {
    const char* cursor = command + 1;
    int64_t announced = 0;
    const ParseStatus line = ScanInteger(cursor, end, announced);
    if (line == ParseStatus::kNeedMore) return line;
    if (line == ParseStatus::kError) return Refuse("invalid multibulk length");
    pos_ = static_cast<size_t>(cursor - command);
    if (announced <= 0) return ParseStatus::kDone;
    if (announced > limits.max_args) return RefuseCount(announced, limits);
    announced_ = static_cast<uint32_t>(announced);
  }
  while (count_ < announced_) {
    const char* cursor = command + pos_;
    if (cursor == end) return ParseStatus::kNeedMore;
    if (*cursor != '$') {
      const char got = *cursor;
      return Refuse(std::string("expected '$', got '") + (got >= 0x20 && got < 0x7f ? got : '?') + "'");
    }
    ++cursor;
    int64_t length = 0;
    const ParseStatus line = ScanInteger(cursor, end, length);
    if (line == ParseStatus::kNeedMore) return line;
    if (line == ParseStatus::kError || length < 0 || length > limits.max_bulk_bytes) {
      return RefuseBulk(line == ParseStatus::kError ? -1 : length, limits);
    }
    const size_t offset = static_cast<size_t>(cursor - command);
    const size_t bytes = static_cast<size_t>(length);
    if (offset + bytes + 2 > limits.max_command_bytes) return Refuse("too big multibulk request");
    if (size - offset < bytes + 2) return ParseStatus::kNeedMore;
    if (cursor[bytes] != '\r' || cursor[bytes + 1] != '\n') return Refuse("bulk without CRLF at its end");
    AddPiece(offset, bytes);
    pos_ = offset + bytes + 2;
  }
  return ParseStatus::kDone;
}

ParseStatus RequestParser::ParseInline(char* command, size_t size, const Limits& limits) {
  const size_t window = std::min<size_t>(size, size_t{limits.max_inline_bytes} + 2);  // the line and its end
  const void* const found =
      window > scanned_ ? std::memchr(command + scanned_, '\n', window - scanned_) : nullptr;
  if (found == nullptr) {
    scanned_ = std::max(scanned_, window);
    if (size >= size_t{limits.max_inline_bytes} + 2) return Refuse("too big inline request");
    return ParseStatus::kNeedMore;
  }
  size_t length = static_cast<size_t>(static_cast<const char*>(found) - command);
  pos_ = length + 1;
  if (length > 0 && command[length - 1] == '\r') --length;
  if (length > limits.max_inline_bytes) return Refuse("too big inline request");
  InlineArgs line(std::span<char>(command, length));
  while (const auto arg = line.Next()) {
    if (count_ == limits.max_args) return Refuse("too many arguments in inline request");
    AddPiece(static_cast<size_t>(arg->data() - command), arg->size());
  }
  return line.balanced() ? ParseStatus::kDone : Refuse("unbalanced quotes in request");
}

ParseStatus RequestParser::RefuseCount(int64_t announced, const Limits& limits) {
  const bool would_fit = announced <= Limits{}.max_args;
  return Refuse(!limits.authenticated && would_fit ? "unauthenticated multibulk length"
                                                   : "invalid multibulk length");
}

ParseStatus RequestParser::RefuseBulk(int64_t length, const Limits& limits) {
  const bool would_fit = length >= 0 && length <= Limits{}.max_bulk_bytes;
  return Refuse(!limits.authenticated && would_fit ? "unauthenticated bulk length" : "invalid bulk length");
}

ParseStatus RequestParser::Refuse(std::string_view what) {
  error_ = "Protocol error: ";
  error_ += what;
  return ParseStatus::kError;
}

void RequestParser::AddPiece(size_t offset, size_t length) {
  if (count_ == pieces_.size()) pieces_.resize(pieces_.size() * 2);  // at most twice the arguments that came
  pieces_[count_++] = {static_cast<uint32_t>(offset), static_cast<uint32_t>(length)};
}

}  // namespace penstock::resp
