// What an HTTP/1.1 message looks like once it is parsed: views into the bytes it came in, nothing owned.
//
// A Request or Response is handed out by a parser (request_parser.h, response_parser.h) and is valid until the next
// call on that parser, or until the bytes that were given to it go away. Plain data, no locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::http {

// Bounds of one message. Memory a connection holds is at most head + body and one read of the socket.
struct Limits {
  size_t max_head_bytes = 16 * 1024;    // start line and headers, with their line ends
  size_t max_headers = 100;             // header lines
  size_t max_body_bytes = 1024 * 1024;  // decoded, where it is chunked
  size_t max_interim_responses = 8;     // 1xx before the response; client side only
};

enum class Method : uint8_t { kGet, kHead, kPost, kPut, kDelete, kPatch, kOptions, kTrace, kConnect, kOther };

struct Header {
  std::string_view name;   // as written
  std::string_view value;  // without white space around it
};

// Headers that are looked up on every request; the parser notes where they are as it meets them.
enum class Known : uint8_t {
  kHost,  // an absolute target's authority takes its place (RFC 9112, 3.2.2)
  kAuthorization,
  kConnection,
  kContentLength,
  kExpect,
  kTransferEncoding,
  kForwardedFor,     // X-Forwarded-For; all lines of it: see forwarded.h
  kForwardedHost,    // X-Forwarded-Host
  kForwardedMethod,  // X-Forwarded-Method
  kForwardedUri,     // X-Forwarded-Uri
  kOriginalMethod,   // X-Original-Method
  kOriginalUri,      // X-Original-URI
  kOriginalUrl,      // X-Original-URL
  kPenstockToken,    // X-Penstock-Token
};
inline constexpr size_t kKnownCount = static_cast<size_t>(Known::kPenstockToken) + 1;

struct Request {
  Method method = Method::kOther;
  std::string_view method_text;
  std::string_view target;  // as sent
  std::string_view path;    // of the target, not decoded (url.h does that); "*" for the server as a whole
  std::string_view query;   // without the question mark, not decoded
  std::string_view body;    // the whole body, decoded where it was chunked
  std::span<const Header> headers;
  bool http10 = false;
  bool keep_alive = true;  // what the client asked for; with http10 only if it said so

  // Empty if it is absent. Of X-… headers that came twice the last counts: the nearest proxy wrote it.
  std::string_view Get(Known header) const { return known[static_cast<size_t>(header)]; }
  // Any header by name, whatever the case; the first of several; empty if absent. Walks all headers.
  std::string_view Find(std::string_view name) const;

  std::array<std::string_view, kKnownCount> known;
};

struct Response {
  int status = 0;
  std::string_view reason;
  std::string_view body;
  std::span<const Header> headers;
  bool keep_alive = true;

  std::string_view Find(std::string_view name) const;
};

// Why a message was refused: the status a server answers with, and a sentence for a person.
struct ParseError {
  int status = 400;
  std::string_view sentence;  // of static storage, without a trailing full stop
};

}  // namespace penstock::http
