// Boost.Beast's parser takes the head apart; this is the only file that includes it.
#include "http/head.h"

#include <boost/beast/http/basic_parser.hpp>
#include <limits>

#include "base/ascii.h"
#include "http/url.h"

namespace penstock::http {
namespace {

namespace beast = boost::beast;
using Verb = beast::http::verb;
using Field = beast::http::field;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

Method ToMethod(Verb verb) {
  switch (verb) {
    case Verb::get:
      return Method::kGet;
    case Verb::head:
      return Method::kHead;
    case Verb::post:
      return Method::kPost;
    case Verb::put:
      return Method::kPut;
    case Verb::delete_:
      return Method::kDelete;
    case Verb::patch:
      return Method::kPatch;
    case Verb::options:
      return Method::kOptions;
    case Verb::trace:
      return Method::kTrace;
    case Verb::connect:
      return Method::kConnect;
    default:
      return Method::kOther;
  }
}

std::optional<Known> ToKnownX(std::string_view name) {
  struct Entry {
    std::string_view name;
    Known known;
  };
  constexpr Entry kEntries[] = {
      {"x-forwarded-for", Known::kForwardedFor},       {"x-forwarded-host", Known::kForwardedHost},
      {"x-forwarded-method", Known::kForwardedMethod}, {"x-forwarded-uri", Known::kForwardedUri},
      {"x-original-method", Known::kOriginalMethod},   {"x-original-uri", Known::kOriginalUri},
      {"x-original-url", Known::kOriginalUrl},         {"x-penstock-token", Known::kPenstockToken},
  };
  for (const Entry& entry : kEntries) {
    if (EqualsIgnoringCase(name, entry.name)) return entry.known;
  }
  return std::nullopt;
}

std::optional<Known> ToKnown(Field field, std::string_view name) {
  switch (field) {
    case Field::host:
      return Known::kHost;
    case Field::authorization:
      return Known::kAuthorization;
    case Field::connection:
      return Known::kConnection;
    case Field::content_length:
      return Known::kContentLength;
    case Field::expect:
      return Known::kExpect;
    case Field::transfer_encoding:
      return Known::kTransferEncoding;
    default:
      break;
  }
  if (name.size() > 2 && (name[0] | 0x20) == 'x' && name[1] == '-') return ToKnownX(name);
  return std::nullopt;
}

// A folded header is refused by the scanner, which knows lines; what is left here is what Beast itself refuses.
ParseError Explain(const beast::error_code& ec) {
  using beast::http::error;
  switch (static_cast<error>(ec.value())) {
    case error::bad_method:
      return {400, "the method is not a token"};
    case error::bad_target:
      return {400, "the request target is malformed"};
    case error::bad_status:
      return {400, "the status code is malformed"};
    case error::bad_reason:
      return {400, "the reason phrase has a control character"};
    case error::bad_field:
      return {400, "a header name is empty or has a character that may not stand there"};
    case error::bad_value:
      return {400, "a header value has a character that may not stand there"};
    case error::bad_line_ending:
      return {400, "a carriage return stands without a line feed"};
    case error::bad_content_length:
      return {400, "Content-Length is no decimal number, or stands beside Transfer-Encoding"};
    case error::multiple_content_length:
      return {400, "there are two different Content-Length"};
    case error::bad_transfer_encoding:
      return {400, "Transfer-Encoding stands twice, or beside Content-Length"};
    default:
      return {400, "the head is malformed"};
  }
}

// "HTTP/2.0" at its place is a version that is not spoken here; "HTTQ/1.1" or "HTTP/1.1x" is no version.
bool NamesForeignVersion(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\r'));
  const size_t target = line.find(' ');
  const size_t space = target == std::string_view::npos ? target : line.find(' ', target + 1);
  if (space == std::string_view::npos) return false;
  const std::string_view version = line.substr(space + 1);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return version.size() == 8 && version.starts_with("HTTP/") && digit(version[5]) && version[6] == '.' &&
         digit(version[7]);
}

// What both kinds of message have in common: header lines are stored, the first mistake of ours is kept.
template <bool is_request>
class HeadParser : public beast::http::basic_parser<is_request> {
 public:
  explicit HeadParser(std::vector<Header>& headers) : headers_(headers) {
    headers_.clear();
    this->header_limit(std::numeric_limits<std::uint32_t>::max());
    this->body_limit(boost::none);
  }

  std::optional<ParseError> Run(std::string_view head) {
    beast::error_code ec;
    this->put(boost::asio::const_buffer(head.data(), head.size()), ec);
    if (mistake_) return mistake_;
    if (ec == beast::http::error::bad_version) {
      if (NamesForeignVersion(head)) return ParseError{505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
      return ParseError{400, "the start line does not name an HTTP version"};
    }
    if (ec) return Explain(ec);
    if (!this->is_header_done()) return ParseError{400, "the head is malformed"};
    return std::nullopt;
  }

 protected:
  void Refuse(beast::error_code& ec, int status, std::string_view sentence) {
    mistake_ = ParseError{status, sentence};
    ec = beast::http::error::bad_field;
  }

  // The rules about lengths that Beast takes lightly: a body has one length, said once, in one way.
  void CheckFraming(Field field, std::string_view value, beast::error_code& ec) {
    if (field == Field::content_length) {
      if (seen_length_ || value.find(',') != std::string_view::npos) {
        Refuse(ec, 400, "Content-Length stands more than once");
      }
      seen_length_ = true;
    } else if (field == Field::transfer_encoding) {
      if (!EqualsIgnoringCase(value, "chunked")) {
        Refuse(ec, 501, "no transfer encoding but chunked is understood");
      }
    }
  }

  std::vector<Header>& headers_;

 private:
  void on_request_impl(Verb, beast::string_view, beast::string_view, int, beast::error_code&) override {}
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_header_impl(beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view, beast::error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view, beast::error_code&) override { return 0; }
  void on_finish_impl(beast::error_code&) override {}

  std::optional<ParseError> mistake_;
  bool seen_length_ = false;
};

class RequestHead final : public HeadParser<true> {
 public:
  RequestHead(Request& out, std::vector<Header>& headers) : HeadParser(headers), out_(out) {
    out_.known.fill({});
  }

  bool has_host() const { return has_host_; }

 private:
  void on_request_impl(Verb verb, beast::string_view method, beast::string_view target, int version,
                       beast::error_code&) override {
    out_.method = ToMethod(verb);
    out_.method_text = View(method);
    out_.target = View(target);
    out_.http10 = version == 10;
  }

  void on_field_impl(Field field, beast::string_view name, beast::string_view value,
                     beast::error_code& ec) override {
    headers_.push_back({View(name), View(value)});
    CheckFraming(field, View(value), ec);
    const auto known = ToKnown(field, View(name));
    if (!known) return;
    std::string_view& place = out_.known[static_cast<size_t>(*known)];
    if (field == Field::host) {
      if (has_host_) return Refuse(ec, 400, "Host stands more than once");
      has_host_ = true;
    }
    if (place.data() == nullptr || *known >= Known::kForwardedFor) place = View(value);
  }

  Request& out_;
  bool has_host_ = false;
};

class ResponseHead final : public HeadParser<false> {
 public:
  ResponseHead(Response& out, std::vector<Header>& headers) : HeadParser(headers), out_(out) {}

 private:
  void on_response_impl(int status, beast::string_view reason, int, beast::error_code&) override {
    out_.status = status;
    out_.reason = View(reason);
  }

  void on_field_impl(Field field, beast::string_view name, beast::string_view value,
                     beast::error_code& ec) override {
    headers_.push_back({View(name), View(value)});
    CheckFraming(field, View(value), ec);
  }

  Response& out_;
};

// The target's forms (RFC 9112, 3.2): a path, a whole URL whose authority is the host, or * for OPTIONS.
std::optional<ParseError> TakeTargetApart(Request& out) {
  if (out.method == Method::kConnect) return ParseError{501, "this server opens no tunnels"};
  std::string_view rest = out.target;
  if (rest.find('#') != std::string_view::npos) return ParseError{400, "the request target has a fragment"};
  if (rest == "*" && out.method == Method::kOptions) {
    out.path = rest;
    out.query = {};
    return std::nullopt;
  }
  if (rest.front() != '/') {
    const size_t scheme = rest.find("://");
    if (scheme == std::string_view::npos || (!EqualsIgnoringCase(rest.substr(0, scheme), "http") &&
                                             !EqualsIgnoringCase(rest.substr(0, scheme), "https"))) {
      return ParseError{400, "the request target is neither a path nor an http URL"};
    }
    rest.remove_prefix(scheme + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
    if (authority.empty()) return ParseError{400, "the request target names no host"};
    out.known[static_cast<size_t>(Known::kHost)] = authority;
    rest.remove_prefix(authority.size());
  }
  const Target target = SplitTarget(rest);
  out.path = target.path.empty() ? "/" : target.path;
  out.query = target.query;
  return std::nullopt;
}

}  // namespace

std::optional<ParseError> ParseRequestHead(std::string_view head, Request& out, std::vector<Header>& headers,
                                           BodyFraming& framing) {
  RequestHead parser(out, headers);
  if (const auto error = parser.Run(head)) return error;
  if (const auto error = TakeTargetApart(out)) return error;
  if (!out.http10 && !parser.has_host()) return ParseError{400, "an HTTP/1.1 request must name its host"};
  if (parser.chunked()) {
    if (out.http10) return ParseError{400, "Transfer-Encoding may not stand in HTTP/1.0"};
    framing = {BodyFraming::Kind::kChunked, 0};
  } else if (const auto length = parser.content_length(); length && *length > 0) {
    framing = {BodyFraming::Kind::kLength, *length};
  } else {
    framing = {};
  }
  out.keep_alive = parser.keep_alive();
  out.headers = headers;
  out.body = {};
  return std::nullopt;
}

std::optional<ParseError> ParseResponseHead(std::string_view head, bool bodyless, Response& out,
                                            std::vector<Header>& headers, BodyFraming& framing) {
  ResponseHead parser(out, headers);
  if (const auto error = parser.Run(head)) return error;
  out.keep_alive = parser.keep_alive();
  if (bodyless || out.status / 100 == 1 || out.status == 204 || out.status == 304) {
    framing = {};
  } else if (parser.chunked()) {
    framing = {BodyFraming::Kind::kChunked, 0};
  } else if (const auto length = parser.content_length()) {
    framing = {BodyFraming::Kind::kLength, *length};
  } else {
    framing = {BodyFraming::Kind::kUntilClose, 0};
    out.keep_alive = false;
  }
  out.headers = headers;
  out.body = {};
  return std::nullopt;
}

}  // namespace penstock::http
