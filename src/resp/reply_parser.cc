#include "resp/reply_parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace penstock::resp {
namespace {

bool IsBigNumber(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool ParseDouble(std::string_view text, double& value) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

void ReplyParser::Reset() {
  nodes_.clear();
  frames_.clear();
  pos_ = 0;
  scanned_ = 0;
  complete_ = false;
}

ParseResult ReplyParser::Parse(std::string_view unread) {
  if (fresh_) Reset();
  fresh_ = false;
  while (!complete_) {
    if (pos_ > limits_.max_reply_bytes) {
      fresh_ = true;
      return {Refuse("reply too big"), 0};
    }
    if (pos_ == unread.size()) return {ParseStatus::kNeedMore, 0};
    const ParseStatus status = ParseElement(unread);
    if (status == ParseStatus::kNeedMore) return {status, 0};
    if (status == ParseStatus::kError) {
      fresh_ = true;
      return {status, 0};
    }
  }
  for (ReplyNode& node : nodes_) node.text = std::string_view(unread.data() + node.offset, node.text.size());
  fresh_ = true;
  return {ParseStatus::kDone, pos_};
}

ParseStatus ReplyParser::ParseElement(std::string_view reply) {
  switch (reply[pos_]) {
    case ':':
      return ParseInteger(reply);
    case '$':
      return ParseBulk(reply, ReplyType::kBulk);
    case '!':
      return ParseBulk(reply, ReplyType::kError);
    case '=':
      return ParseBulk(reply, ReplyType::kVerbatim);
    case '*':
      return ParseAggregate(reply, ReplyType::kArray, false);
    case '%':
      return ParseAggregate(reply, ReplyType::kMap, false);
    case '~':
      return ParseAggregate(reply, ReplyType::kSet, false);
    case '>':
      return ParseAggregate(reply, ReplyType::kPush, false);
    case '|':
      return ParseAggregate(reply, ReplyType::kMap, true);
    case '+':
      return ParseLine(reply, ReplyType::kSimple);
    case '-':
      return ParseLine(reply, ReplyType::kError);
    case '_':
      return ParseLine(reply, ReplyType::kNull);
    case '#':
      return ParseLine(reply, ReplyType::kBoolean);
    case ',':
      return ParseLine(reply, ReplyType::kDouble);
    case '(':
      return ParseLine(reply, ReplyType::kBigNumber);
    default:
      return Refuse("unknown reply type");
  }
}

// Moves pos_ behind the length line of the element there.
ParseStatus ReplyParser::Scan(std::string_view reply, int64_t& value) {
  const char* cursor = reply.data() + pos_ + 1;
  const ParseStatus status = ScanInteger(cursor, reply.data() + reply.size(), value);
  if (status == ParseStatus::kError) return Refuse("malformed number");
  if (status == ParseStatus::kDone) pos_ = static_cast<size_t>(cursor - reply.data());
  return status;
}

ParseStatus ReplyParser::ParseInteger(std::string_view reply) {
  ReplyNode node{.type = ReplyType::kInteger};
  const ParseStatus status = Scan(reply, node.integer);
  return status == ParseStatus::kDone ? Leaf(node) : status;
}

ParseStatus ReplyParser::ParseBulk(std::string_view reply, ReplyType type) {
  const size_t start = pos_;
  int64_t length = 0;
  const ParseStatus status = Scan(reply, length);
  if (status != ParseStatus::kDone) return status;
  if (length == -1 && type == ReplyType::kBulk) return Leaf({});
  if (length < 0 || static_cast<uint64_t>(length) > limits_.max_bulk_bytes)
    return Refuse("invalid bulk length");
  const size_t bytes = static_cast<size_t>(length);
  if (pos_ + bytes + 2 > limits_.max_reply_bytes) return Refuse("reply too big");
  if (reply.size() - pos_ < bytes + 2) {
    pos_ = start;  // the length line is short: it is read again
    return ParseStatus::kNeedMore;
  }
  if (reply[pos_ + bytes] != '\r' || reply[pos_ + bytes + 1] != '\n')
    return Refuse("bulk without CRLF at its end");
  ReplyNode node{.type = type, .text = reply.substr(pos_, bytes), .offset = pos_};
  pos_ += bytes + 2;
  if (type == ReplyType::kVerbatim) {
    constexpr size_t kFormat = 4;  // "txt:"
    if (bytes < kFormat || node.text[kFormat - 1] != ':') return Refuse("verbatim string without a format");
    node.text.remove_prefix(kFormat);
    node.offset += kFormat;
  }
  return Leaf(node);
}

ParseStatus ReplyParser::ParseAggregate(std::string_view reply, ReplyType type, bool attribute) {
  int64_t count = 0;
  const ParseStatus status = Scan(reply, count);
  if (status != ParseStatus::kDone) return status;
  if (count == -1 && type == ReplyType::kArray) return Leaf({});
  if (count < 0 || count > limits_.max_nodes) return Refuse("invalid aggregate length");
  const uint64_t children = static_cast<uint64_t>(count) * (type == ReplyType::kMap ? 2 : 1);
  if (nodes_.size() + 1 + children > limits_.max_nodes) return Refuse("too many elements in a reply");
  if (attribute && children == 0) return ParseStatus::kDone;
  const auto index = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.type = type, .children = static_cast<uint32_t>(children), .end = index + 1});
  if (children == 0) {
    Finished();
    return ParseStatus::kDone;
  }
  if (frames_.size() == limits_.max_depth) return Refuse("reply nested too deeply");
  frames_.push_back({.node = index, .remaining = static_cast<uint32_t>(children), .attribute = attribute});
  return ParseStatus::kDone;
}

ParseStatus ReplyParser::ParseLine(std::string_view reply, ReplyType type) {
  const size_t start = pos_ + 1;
  const size_t from = std::max(start, scanned_);
  const size_t window = std::min(reply.size(), start + limits_.max_line_bytes + 1);
  const void* const found = window > from ? std::memchr(reply.data() + from, '\r', window - from) : nullptr;
  if (found == nullptr) {
    scanned_ = std::max(from, window);
    return window > start + limits_.max_line_bytes ? Refuse("line too long") : ParseStatus::kNeedMore;
  }
  const size_t stop = static_cast<size_t>(static_cast<const char*>(found) - reply.data());
  scanned_ = stop;
  if (stop + 1 == reply.size()) return ParseStatus::kNeedMore;
  if (reply[stop + 1] != '\n') return Refuse("line without CRLF at its end");
  ReplyNode node{.type = type, .text = reply.substr(start, stop - start), .offset = start};
  pos_ = stop + 2;
  return TakeLine(node);
}

ParseStatus ReplyParser::TakeLine(ReplyNode& node) {
  switch (node.type) {
    case ReplyType::kNull:
      if (!node.text.empty()) return Refuse("malformed null");
      break;
    case ReplyType::kBoolean:
      if (node.text != "t" && node.text != "f") return Refuse("malformed boolean");
      node.integer = node.text == "t" ? 1 : 0;
      node.text = {};
      break;
    case ReplyType::kDouble:
      if (!ParseDouble(node.text, node.real)) return Refuse("malformed double");
      break;
    case ReplyType::kBigNumber:
      if (!IsBigNumber(node.text)) return Refuse("malformed big number");
      break;
    default:
      break;
  }
  return Leaf(node);
}

ParseStatus ReplyParser::Leaf(const ReplyNode& node) {
  if (nodes_.size() == limits_.max_nodes) return Refuse("too many elements in a reply");
  nodes_.push_back(node);
  nodes_.back().end = static_cast<uint32_t>(nodes_.size());
  Finished();
  return ParseStatus::kDone;
}

// An element is whole: so are the aggregates whose last element it was.
void ReplyParser::Finished() {
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (--frame.remaining > 0) return;
    const Frame done = frame;
    frames_.pop_back();
    if (done.attribute) {  // it decorates the element that follows and is none itself
      nodes_.resize(done.node);
      return;
    }
    nodes_[done.node].end = static_cast<uint32_t>(nodes_.size());
  }
  complete_ = true;
}

ParseStatus ReplyParser::Refuse(std::string_view what) {
  error_ = what;
  return ParseStatus::kError;
}

}  // namespace penstock::resp
