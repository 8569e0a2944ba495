// Writes responses straight into an output buffer: status line, headers, body; always with Content-Length (but for the
// statuses that have no body), and with nothing in a header that could end it early.
//
//   ResponseWriter writer(out, shape, 200);
//   writer.Header("X-RateLimit-Limit", 20);
//   RateLimitList(writer.OpenHeader("RateLimit")).Limit(…);   // structured_fields.h
//   writer.CloseHeader();
//   std::string& body = writer.BeginBody("application/json");
//   body += …;          // append only
//   writer.EndBody();
//
// One response at a time on a buffer; between the constructor and the end nobody else writes into it. A plain
// helper of the caller's thread, no allocation but the buffer's growth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/characters.h"

namespace penstock::http {

// The name of a header that we write: a literal, checked when it is compiled.
class HeaderName {
 public:
  template <size_t size>
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is meant to be given where a name is wanted.
  consteval HeaderName(const char (&name)[size]) : text_(name, size - 1) {
    if (!IsToken(text_)) throw "a header name is a token";
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// What a response must know of its request; session.h hands it out with the request.
struct ReplyShape {
  bool head_only = false;  // the method was HEAD: all but the body
  bool keep_alive = true;
  bool http10 = false;
  std::string_view date = {};  // the value of the Date header; empty: none
};

class ResponseWriter {
 public:
  ResponseWriter(std::string& out, const ReplyShape& shape, int status);
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  // False, and nothing written, if the value has a control character: what comes from outside cannot add a header
  // or end the head.
  bool Header(HeaderName name, std::string_view value);
  void Header(HeaderName name, int64_t value);

  // A value that is put together in place: append to what comes back, then close. CloseHeader drops the header and
  // says false if the value has a control character.
  std::string& OpenHeader(HeaderName name);
  bool CloseHeader();

  // The rest of the head and the body, ready made.
  void Body(std::string_view content_type, std::string_view body);
  // The same with no body (and no type).
  void NoBody();

  // A body that is put together in place: append to what comes back, then end.
  std::string& BeginBody(std::string_view content_type);
  void EndBody();

 private:
  void AppendName(HeaderName name);
  bool HasBody() const { return status_ >= 200 && status_ != 204 && status_ != 304; }

  std::string& out_;
  const ReplyShape shape_;
  const int status_;
  size_t header_begin_ = 0;  // of the open header
  size_t value_begin_ = 0;
  size_t length_at_ = 0;  // where the digits of Content-Length stand
  size_t body_begin_ = 0;
};

// "OK" for 200; "" for a status without a name.
std::string_view ReasonPhrase(int status);

// Appends an instant as HTTP writes it: "Sun, 06 Nov 1994 08:49:37 GMT". Years 1970 to 9999.
void AppendHttpDate(std::string& out, int64_t unix_seconds);

}  // namespace penstock::http
