#include "resp/writer.h"

#include <algorithm>
#include <charconv>

namespace penstock::resp {
namespace {

constexpr size_t kMaxNumberLine = 1 + 20 + 2;  // type, sign and 19 digits, CR LF

// `<type><value>CRLF` at `at`, which has room for kMaxNumberLine; returns the end.
char* PutNumberLine(char* at, char type, int64_t value) {
  *at++ = type;
  if (value >= 0 && value < 10) {  // verdicts, counts of short arrays
    *at++ = static_cast<char>('0' + value);
  } else {
    at = std::to_chars(at, at + 20, value).ptr;
  }
  *at++ = '\r';
  *at++ = '\n';
  return at;
}

void AppendNumberLine(std::string& out, char type, int64_t value) {
  char line[kMaxNumberLine];
  out.append(line, static_cast<size_t>(PutNumberLine(line, type, value) - line));
}

void AppendBulk(std::string& out, std::string_view text) {
  constexpr size_t kShort = 64;
  char bytes[kMaxNumberLine + kShort + 2];
  char* at = PutNumberLine(bytes, '$', static_cast<int64_t>(text.size()));
  if (text.size() <= kShort) {  // one append
    at = std::copy(text.begin(), text.end(), at);
    *at++ = '\r';
    *at++ = '\n';
    out.append(bytes, static_cast<size_t>(at - bytes));
    return;
  }
  out.append(bytes, static_cast<size_t>(at - bytes));
  out.append(text);
  out.append("\r\n", 2);
}

}  // namespace

void Writer::Integer(int64_t value) { AppendNumberLine(out_, ':', value); }

void Writer::Integers(std::initializer_list<int64_t> values) {
  constexpr size_t kAtOnce = 8;
  char bytes[kMaxNumberLine * (kAtOnce + 1)];
  char* at = PutNumberLine(bytes, '*', static_cast<int64_t>(values.size()));
  size_t room = kAtOnce;
  for (const int64_t value : values) {
    if (room == 0) {
      out_.append(bytes, static_cast<size_t>(at - bytes));
      at = bytes;
      room = kAtOnce;
    }
    at = PutNumberLine(at, ':', value);
    --room;
  }
  out_.append(bytes, static_cast<size_t>(at - bytes));
}

void Writer::Bulk(std::string_view text) { AppendBulk(out_, text); }

void Writer::Null() {
  if (protocol_ == Protocol::kResp3) {
    out_.append("_\r\n", 3);
  } else {
    out_.append("$-1\r\n", 5);
  }
}

void Writer::NullArray() {
  if (protocol_ == Protocol::kResp3) {
    out_.append("_\r\n", 3);
  } else {
    out_.append("*-1\r\n", 5);
  }
}

void Writer::Map(size_t pairs) {
  if (protocol_ == Protocol::kResp3) {
    Header('%', pairs);
  } else {
    Header('*', pairs * 2);
  }
}

void Writer::Line(char type, std::string_view text) {
  out_ += type;
  const size_t start = out_.size();
  out_.append(text);
  std::replace_if(
      out_.begin() + static_cast<std::ptrdiff_t>(start), out_.end(),
      [](char c) { return c == '\r' || c == '\n'; }, ' ');
  out_.append("\r\n", 2);
}

void Writer::Header(char type, size_t count) { AppendNumberLine(out_, type, static_cast<int64_t>(count)); }

void AppendCommand(std::string& out, std::span<const std::string_view> args) {
  AppendNumberLine(out, '*', static_cast<int64_t>(args.size()));
  for (const std::string_view arg : args) AppendBulk(out, arg);
}

void AppendCommand(std::string& out, std::initializer_list<std::string_view> args) {
  AppendCommand(out, std::span<const std::string_view>(args.begin(), args.size()));
}

}  // namespace penstock::resp
