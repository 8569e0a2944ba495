#include "http/response_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "base/bytes.h"
#include "http/characters.h"

namespace penstock::http {
namespace {

// Digits of Content-Length that are kept free for a body whose length is not known yet: most answers have three, and
// then nothing moves.
constexpr size_t kLengthRoom = 3;

constexpr std::string_view kLengthName = "Content-Length: ";

struct StatusLine {
  int status;
  std::string_view reason;
};
constexpr StatusLine kStatuses[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

void AppendTwoDigits(std::string& out, unsigned value) {
  out += static_cast<char>('0' + value / 10);
  out += static_cast<char>('0' + value % 10);
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  const auto* const found =
      std::lower_bound(std::begin(kStatuses), std::end(kStatuses), status,
                       [](const StatusLine& line, int wanted) { return line.status < wanted; });
  return found != std::end(kStatuses) && found->status == status ? found->reason : std::string_view();
}

ResponseWriter::ResponseWriter(std::string& out, const ReplyShape& shape, int status)
    : out_(out), shape_(shape), status_(status) {
  if (status == 200) {
    out_ += "HTTP/1.1 200 OK\r\n";
  } else {
    out_ += "HTTP/1.1 ";
    AppendInt(out_, status);
    out_ += ' ';
    out_ += ReasonPhrase(status);
    out_ += "\r\n";
  }
  if (!shape_.date.empty()) Header("Date", shape_.date);
  if (!shape_.keep_alive) {
    out_ += "Connection: close\r\n";
  } else if (shape_.http10) {
    out_ += "Connection: keep-alive\r\n";
  }
}

void ResponseWriter::AppendName(HeaderName name) {
  out_ += name.text();
  out_ += ": ";
}

bool ResponseWriter::Header(HeaderName name, std::string_view value) {
  if (!IsHeaderValue(value)) return false;
  AppendName(name);
  out_ += value;
  out_ += "\r\n";
  return true;
}

void ResponseWriter::Header(HeaderName name, int64_t value) {
  AppendName(name);
  AppendInt(out_, value);
  out_ += "\r\n";
}

std::string& ResponseWriter::OpenHeader(HeaderName name) {
  header_begin_ = out_.size();
  AppendName(name);
  value_begin_ = out_.size();
  return out_;
}

bool ResponseWriter::CloseHeader() {
  if (!IsHeaderValue(std::string_view(out_).substr(value_begin_))) {
    out_.resize(header_begin_);
    return false;
  }
  out_ += "\r\n";
  return true;
}

void ResponseWriter::Body(std::string_view content_type, std::string_view body) {
  if (HasBody()) {
    Header("Content-Type", content_type);
    out_ += kLengthName;
    AppendInt(out_, static_cast<int64_t>(body.size()));
    out_ += "\r\n\r\n";
    if (!shape_.head_only) out_ += body;
  } else {
    out_ += "\r\n";
  }
}

void ResponseWriter::NoBody() { out_ += HasBody() ? "Content-Length: 0\r\n\r\n" : "\r\n"; }

std::string& ResponseWriter::BeginBody(std::string_view content_type) {
  if (HasBody()) {
    Header("Content-Type", content_type);
    out_ += kLengthName;
    length_at_ = out_.size();
    out_.append(kLengthRoom, '0');
    out_ += "\r\n\r\n";
  } else {
    out_ += "\r\n";
  }
  body_begin_ = out_.size();
  return out_;
}

void ResponseWriter::EndBody() {
  if (!HasBody()) {
    out_.resize(body_begin_);
    return;
  }
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), out_.size() - body_begin_).ptr;
  const size_t count = static_cast<size_t>(end - digits.data());
  if (shape_.head_only) out_.resize(body_begin_);
  out_.replace(length_at_, kLengthRoom, digits.data(), count);
}

void AppendHttpDate(std::string& out, int64_t unix_seconds) {
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  using std::chrono::days;
  using std::chrono::sys_days;
  const int64_t last = 253'402'300'799;  // the last second of the year 9999
  const std::chrono::sys_seconds instant{std::chrono::seconds(std::clamp<int64_t>(unix_seconds, 0, last))};
  const sys_days day = std::chrono::floor<days>(instant);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(instant - day);
  const unsigned month = static_cast<unsigned>(date.month());
  out += kDays.substr(3 * std::chrono::weekday(day).c_encoding(), 3);
  out += ", ";
  AppendTwoDigits(out, static_cast<unsigned>(date.day()));
  out += ' ';
  out += kMonths.substr(3 * (month - 1), 3);
  out += ' ';
  AppendInt(out, static_cast<int>(date.year()));
  out += ' ';
  AppendTwoDigits(out, static_cast<unsigned>(clock.hours().count()));
  out += ':';
  AppendTwoDigits(out, static_cast<unsigned>(clock.minutes().count()));
  out += ':';
  AppendTwoDigits(out, static_cast<unsigned>(clock.seconds().count()));
  out += " GMT";
}

}  // namespace penstock::http
