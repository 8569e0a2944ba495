#include "resp/inline_args.h"

#include "base/ascii.h"

namespace penstock::resp {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char Unescape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

}  // namespace

std::optional<std::string_view> InlineArgs::Next() {
  while (cursor_ != end_ && IsSpace(*cursor_)) ++cursor_;
  if (cursor_ == end_ || !balanced_) return std::nullopt;
  char* const start = cursor_;
  char* out = cursor_;
  while (cursor_ != end_ && !IsSpace(*cursor_)) {
    const char c = *cursor_;
    if (c == '"' || c == '\'') {
      ++cursor_;
      if (!TakeQuoted(c, out)) {
        balanced_ = false;
        return std::nullopt;
      }
      break;
    }
    *out++ = c;
    ++cursor_;
  }
  return std::string_view(start, static_cast<size_t>(out - start));
}

bool InlineArgs::TakeQuoted(char quote, char*& out) {
  while (cursor_ != end_) {
    const char c = *cursor_++;
    if (c == quote) return cursor_ == end_ || IsSpace(*cursor_);
    if (c != '\\' || cursor_ == end_ || (quote == '\'' && *cursor_ != '\'')) {
      *out++ = c;
      continue;
    }
    const char escaped = *cursor_++;
    if (quote == '"' && escaped == 'x' && end_ - cursor_ >= 2 && HexValue(cursor_[0]) >= 0 &&
        HexValue(cursor_[1]) >= 0) {
      *out++ = static_cast<char>(HexValue(cursor_[0]) * 16 + HexValue(cursor_[1]));
      cursor_ += 2;
    } else {
      *out++ = quote == '"' ? Unescape(escaped) : escaped;
    }
  }
  return false;
}

}  // namespace penstock::resp
