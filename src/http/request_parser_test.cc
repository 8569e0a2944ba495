#include "http/request_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace penstock::http {
namespace {

using Status = RequestParser::Status;

// What a test compares of a request: all of it, as text that owns its bytes.
std::string Describe(const Request& request) {
  std::string text(request.method_text);
  text += ' ';
  text += request.target;
  text += " path=";
  text += request.path;
  text += " query=";
  text += request.query;
  text += request.http10 ? " 1.0" : " 1.1";
  text += request.keep_alive ? " keep" : " close";
  for (const Header& header : request.headers) {
    text += "\n  ";
    text += header.name;
    text += ": ";
    text += header.value;
  }
  for (const std::string_view known : request.known) {
    text += '|';
    text += known;
  }
  text += "\n  body=";
  text += request.body;
  return text;
}

// Everything that comes out of `bytes`, given in pieces whose sizes `next_piece` says: requests, then the error.
template <class NextPiece>
std::vector<std::string> ParseAll(std::string_view bytes, const Limits& limits, NextPiece next_piece) {
  std::vector<std::string> out;
  RequestParser parser(limits);
  std::string unread;
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), next_piece());
    unread.append(bytes.substr(0, piece));
    bytes.remove_prefix(piece);
    for (;;) {
      // A copy of exact size, in another place each time: what is kept of the old one, a sanitizer sees.
      const std::vector<char> copy(unread.begin(), unread.end());
      const auto step = parser.Parse({copy.data(), copy.size()});
      if (step.status == Status::kRequest) out.push_back(Describe(parser.request()));
      unread.erase(0, step.consumed);
      if (step.status == Status::kError) {
        out.push_back(std::to_string(parser.error().status) + " " + std::string(parser.error().sentence));
        return out;
      }
      if (step.status == Status::kNeedMore) break;
    }
  }
  return out;
}

std::vector<std::string> ParseWhole(std::string_view bytes, const Limits& limits = {}) {
  return ParseAll(bytes, limits, [&] { return bytes.size(); });
}

// The status of the error that the bytes end in, or 0; the same however they are cut.
int StatusOf(const std::string& bytes, const Limits& limits = {}) {
  const auto whole = ParseWhole(bytes, limits);
  EXPECT_EQ(whole, ParseAll(bytes, limits, [] { return size_t{1}; })) << bytes;
  if (whole.empty() || whole.back()[0] < '0' || whole.back()[0] > '9') return 0;
  return std::stoi(whole.back());
}

std::string Head(std::string_view lines) {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(lines) + "\r\n";
}

TEST(RequestParser, TakesARequestApart) {
  const std::string body = R"({"domain":"api"})";
  const std::string bytes =
      "POST /v1/check?a=1&b=%20 HTTP/1.1\r\nHost: example.org:8080\r\nContent-Type:application/json\r\n"
      "content-length:  16 \r\nX-Empty:\r\nAuthorization: Bearer t\r\n\r\n" +
      body;
  RequestParser parser;
  const auto step = parser.Parse(bytes);
  ASSERT_EQ(step.status, Status::kRequest);
  EXPECT_EQ(step.consumed, bytes.size());
  const Request& request = parser.request();
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.method_text, "POST");
  EXPECT_EQ(request.target, "/v1/check?a=1&b=%20");
  EXPECT_EQ(request.path, "/v1/check");
  EXPECT_EQ(request.query, "a=1&b=%20");
  EXPECT_EQ(request.body, body);
  EXPECT_FALSE(request.http10);
  EXPECT_TRUE(request.keep_alive);
  EXPECT_EQ(request.headers.size(), 5u);
  EXPECT_EQ(request.Get(Known::kHost), "example.org:8080");
  EXPECT_EQ(request.Find("content-type"), "application/json");
  EXPECT_EQ(request.Get(Known::kContentLength), "16");
  EXPECT_EQ(request.Get(Known::kAuthorization), "Bearer t");
  EXPECT_EQ(request.Get(Known::kExpect), "");
  EXPECT_EQ(request.Find("x-EMPTY"), "");
  EXPECT_EQ(request.Find("CONTENT-TYPE"), "application/json");
  // The body is a view into what was given.
  EXPECT_EQ(request.body.data(), bytes.data() + bytes.size() - body.size());
}

TEST(RequestParser, HeadersOfProxiesAreFoundInAnyCase) {
  const std::string bytes =
      "GET /auth/api HTTP/1.1\r\nHost: a\r\nX-FORWARDED-FOR: 1.2.3.4\r\nx-forwarded-host: shop\r\n"
      "X-Forwarded-Method: PUT\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Uri: /a?b\r\nX-Original-Method: "
      "GET\r\n"
      "X-Original-URI: /first\r\nX-Original-URI: /last\r\nX-Original-Url: http://a/b\r\nX-Penstock-Token: "
      "t\r\n"
      "If-Match: 7\r\nAccept: */*\r\n\r\n";
  RequestParser parser;
  ASSERT_EQ(parser.Parse(bytes).status, Status::kRequest);
  const Request& request = parser.request();
  EXPECT_EQ(request.Get(Known::kForwardedFor), "1.2.3.4");
  EXPECT_EQ(request.Get(Known::kForwardedHost), "shop");
  EXPECT_EQ(request.Get(Known::kForwardedMethod), "PUT");
  EXPECT_EQ(request.Find("x-forwarded-proto"), "https");
  EXPECT_EQ(request.Get(Known::kForwardedUri), "/a?b");
  EXPECT_EQ(request.Get(Known::kOriginalMethod), "GET");
  EXPECT_EQ(request.Get(Known::kOriginalUri), "/last");
  EXPECT_EQ(request.Get(Known::kOriginalUrl), "http://a/b");
  EXPECT_EQ(request.Get(Known::kPenstockToken), "t");
  EXPECT_EQ(request.Find("if-match"), "7");
  EXPECT_EQ(request.Find("accept"), "*/*");
}

TEST(RequestParser, AKnownHeaderOfOneRequestIsNotSeenInTheNext) {
  RequestParser parser;
  ASSERT_EQ(parser.Parse("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n").status,
            Status::kRequest);
  ASSERT_EQ(parser.Parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, Status::kRequest);
  EXPECT_EQ(parser.request().Get(Known::kAuthorization), "");
  EXPECT_EQ(parser.request().headers.size(), 1u);
}

TEST(RequestParser, TargetHasFourForms) {
  const auto parse = [](std::string_view line) {
    RequestParser parser;
    const std::string bytes = std::string(line) + " HTTP/1.1\r\nHost: given\r\n\r\n";
    if (parser.Parse(bytes).status != Status::kRequest) return std::to_string(parser.error().status);
    const Request& request = parser.request();
    return std::string(request.path) + " " + std::string(request.query) + " " +
           std::string(request.Get(Known::kHost));
  };
  EXPECT_EQ(parse("GET /a/b?c=d?e"), "/a/b c=d?e given");
  EXPECT_EQ(parse("GET http://host:81/a?b"), "/a b host:81");
  EXPECT_EQ(parse("GET HTTPS://host"), "/  host");
  EXPECT_EQ(parse("GET http://host?b"), "/ b host");
  EXPECT_EQ(parse("OPTIONS *"), "*  given");
  EXPECT_EQ(parse("GET *"), "400");
  EXPECT_EQ(parse("GET a/b"), "400");
  EXPECT_EQ(parse("GET ftp://host/"), "400");
  EXPECT_EQ(parse("GET http:///a"), "400");
  EXPECT_EQ(parse("GET /a#b"), "400");
  EXPECT_EQ(parse("CONNECT host:443"), "501");
}

TEST(RequestParser, KeepAliveFollowsVersionAndConnection) {
  const auto keeps = [](std::string_view version, std::string_view connection) {
    RequestParser parser;
    std::string bytes = "GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n";
    if (!connection.empty()) bytes += "Connection: " + std::string(connection) + "\r\n";
    bytes += "\r\n";
    EXPECT_EQ(parser.Parse(bytes).status, Status::kRequest);
    EXPECT_EQ(parser.request().http10, version == "1.0");
    return parser.request().keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_TRUE(keeps("1.1", "keep-alive"));
  EXPECT_FALSE(keeps("1.1", "close"));
  EXPECT_FALSE(keeps("1.1", "x, CLOSE"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Keep-Alive"));
}

TEST(RequestParser, PipelinedRequestsComeOutOneByOne) {
  const std::string bytes = Head("Content-Length: 3\r\n") + "one" + Head("Content-Length: 0\r\n") +
                            "\r\n\r\n" + Head("Transfer-Encoding: chunked\r\n") + "5\r\nthree\r\n0\r\n\r\n" +
                            "GET";
  RequestParser parser;
  std::string_view rest = bytes;
  std::vector<std::string> bodies;
  for (;;) {
    const auto step = parser.Parse(rest);
    rest.remove_prefix(step.consumed);
    if (step.status != Status::kRequest) break;
    bodies.emplace_back(parser.request().body);
  }
  EXPECT_EQ(bodies, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(rest, "GET");
  EXPECT_EQ(parser.phase(), RequestParser::Phase::kHead);
}

TEST(RequestParser, PhaseSaysWhatIsWaitedFor) {
  using Phase = RequestParser::Phase;
  RequestParser parser;
  EXPECT_EQ(parser.Parse("").status, Status::kNeedMore);
  EXPECT_EQ(parser.phase(), Phase::kIdle);
  EXPECT_EQ(parser.Parse("\r\n").consumed, 2u);
  EXPECT_EQ(parser.phase(), Phase::kIdle);
  EXPECT_EQ(parser.Parse("P").status, Status::kNeedMore);
  EXPECT_EQ(parser.phase(), Phase::kHead);
  const std::string bytes = Head("Content-Length: 2\r\n");
  EXPECT_EQ(parser.Parse(bytes).consumed, 0u);
  EXPECT_EQ(parser.phase(), Phase::kBody);
  EXPECT_EQ(parser.Parse(bytes + "ok").status, Status::kRequest);
  EXPECT_EQ(parser.phase(), Phase::kIdle);
}

TEST(RequestParser, ChunkedBodyIsPutTogether) {
  const auto body = [](std::string_view chunks) {
    RequestParser parser;
    const std::string bytes = Head("Transfer-Encoding: Chunked\r\n") + std::string(chunks);
    const auto step = parser.Parse(bytes);
    if (step.status != Status::kRequest) return std::string("none");
    EXPECT_EQ(step.consumed, bytes.size());
    return std::string(parser.request().body);
  };
  EXPECT_EQ(body("0\r\n\r\n"), "");
  EXPECT_EQ(body("3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"), "abc0123456789");
  EXPECT_EQ(body("3;name=\"v;\" ; x\r\nabc\r\n000\r\n\r\n"), "abc");
  EXPECT_EQ(body("3 \t;x\r\nabc\r\n0\r\nTrailer: x\r\nOther:\r\n\r\n"), "abc");
}

TEST(RequestParser, MalformedChunksAreRefused) {
  const std::string head = Head("Transfer-Encoding: chunked\r\n");
  for (const std::string chunks : {"\r\n",
                                   "g\r\n",
                                   "-1\r\n",
                                   "+1\r\nx\r\n",
                                   "0x1\r\nx\r\n",
                                   " 1\r\nx\r\n",
                                   "1\nx\r\n0\r\n\r\n",
                                   "1\r\nxy\r\n",
                                   "1\r\nx\n",
                                   "1\r\nx\rx",
                                   "1;a\nb\r\n",
                                   "1;\x01\r\n",
                                   "1\rx",
                                   "0\r\n folded: x\r\n\r\n",
                                   "0\r\nname : x\r\n\r\n",
                                   "0\r\nname\r\n\r\n",
                                   "0\r\n: x\r\n\r\n",
                                   "0\r\nname: x\n\r\n",
                                   "0\r\n\rx",
                                   "0000000000000001\r\nx\r\n",
                                   "ffffffffffffffff1\r\n"}) {
    EXPECT_EQ(StatusOf(head + chunks), 400) << chunks;
  }
}

TEST(RequestParser, RequestsThatCouldBeReadInTwoWaysAreRefused) {
  EXPECT_EQ(StatusOf(Head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: 5\r\nContent-Length: 6\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: 5\r\nContent-Length: 5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: 5, 5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: +5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: -5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: 0x5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: 5 5\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length:\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Content-Length: 99999999999999999999999\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: gzip, chunked\r\n")), 501);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: chunked, identity\r\n")), 501);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: identity\r\n")), 501);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: xchunked\r\n")), 501);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding : chunked\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding: \"chunked\"\r\n")), 501);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding:\r\n chunked\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("Transfer-Encoding:\x0b chunked\r\n")), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(RequestParser, LinesMustEndAsTheyShould) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(Head("A: b\r\n folded\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A: b\r\n\tfolded\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A:\r\n \r\n")), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n folded: x\r\nHost: a\r\n\r\n"), 400);
}

TEST(RequestParser, NamesAndValuesAreChecked) {
  EXPECT_EQ(StatusOf(Head("A : b\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A\t: b\r\n")), 400);
  EXPECT_EQ(StatusOf(Head(": b\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A(: b\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A: b\x01\r\n")), 400);
  EXPECT_EQ(StatusOf(Head(std::string("A: b\0c\r\n", 8))), 400);
  EXPECT_EQ(StatusOf(Head("A: b\x7f\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A\xc3: b\r\n")), 400);
  EXPECT_EQ(StatusOf(Head("A: b\tc \xc3\xbc\r\n")), 0);
  EXPECT_EQ(StatusOf("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(" / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400);
}

TEST(RequestParser, OnlyTheseVersionsAreSpoken) {
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/11\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / http/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("\x16\x03\x01\x02\x01\x01\r\n\r\n"), 400);
}

TEST(RequestParser, HostIsNamedOnce) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET http://a/ HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 0);
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\n\r\n"), 0);
}

// TLS, a Redis command, a line without a version: there is no waiting for the end of a head that will not come.
TEST(RequestParser, WhatIsNotHttpIsRefusedAtItsFirstLine) {
  EXPECT_EQ(StatusOf("\x16\x03\x01"), 400);
  EXPECT_EQ(StatusOf(" "), 400);
  EXPECT_EQ(StatusOf("*1\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r"), 0);
}

TEST(RequestParser, BoundsHoldAtTheirEdge) {
  Limits limits;
  limits.max_head_bytes = 100;
  limits.max_headers = 3;
  limits.max_body_bytes = 10;
  const auto target_of = [](size_t size) {
    return "GET /" + std::string(size, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  const size_t frame = target_of(0).size();
  EXPECT_EQ(StatusOf(target_of(100 - frame), limits), 0);
  EXPECT_EQ(StatusOf(target_of(101 - frame), limits), 431);
  EXPECT_EQ(StatusOf(target_of(100), limits), 414);
  EXPECT_EQ(StatusOf(std::string(101, 'a'), limits), 414);
  EXPECT_EQ(StatusOf(Head("A: " + std::string(100, 'a') + "\r\n"), limits), 431);
  EXPECT_EQ(StatusOf(Head("A: b\r\nA: b\r\n"), limits), 0);
  EXPECT_EQ(StatusOf(Head("A: b\r\nA: b\r\nA: b\r\n"), limits), 431);
  EXPECT_EQ(StatusOf(Head("Content-Length: 10\r\n") + "0123456789", limits), 0);
  EXPECT_EQ(StatusOf(Head("Content-Length: 11\r\n"), limits), 413);
  EXPECT_EQ(StatusOf(Head("Content-Length: 18446744073709551615\r\n"), limits), 413);
  const std::string chunked = Head("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(StatusOf(chunked + "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", limits), 0);
  EXPECT_EQ(StatusOf(chunked + "5\r\n01234\r\n6\r\n567890\r\n0\r\n\r\n", limits), 413);
  EXPECT_EQ(StatusOf(chunked + "fffffffffffffff\r\nx", limits), 413);
  EXPECT_EQ(StatusOf(chunked + "1;" + std::string(120, 'x') + "\r\n", limits), 431);
  std::string small_extensions = chunked;
  for (int i = 0; i < 9; ++i) small_extensions += "1;0123456789ab\r\nx\r\n";
  EXPECT_EQ(StatusOf(small_extensions, limits), 431);
  EXPECT_EQ(StatusOf(chunked + "0\r\nT: " + std::string(120, 'x') + "\r\n\r\n", limits), 431);
}

TEST(RequestParser, AskedForContinueOnceAndOnlyWhileTheBodyIsAwaited) {
  RequestParser parser;
  const std::string head = Head("Expect: 100-Continue\r\nContent-Length: 2\r\n");
  EXPECT_EQ(parser.Parse(head).status, Status::kNeedMore);
  EXPECT_TRUE(parser.TakeContinue());
  EXPECT_FALSE(parser.TakeContinue());
  EXPECT_EQ(parser.Parse(head + "ok").status, Status::kRequest);
  EXPECT_EQ(parser.Parse(head + "o").status, Status::kNeedMore);
  EXPECT_FALSE(parser.TakeContinue());
  EXPECT_EQ(parser.Parse(head + "ok").status, Status::kRequest);
  EXPECT_FALSE(parser.TakeContinue());
  EXPECT_EQ(parser.Parse(Head("Expect: 100-continue\r\n")).status, Status::kRequest);
  EXPECT_FALSE(parser.TakeContinue());
  EXPECT_EQ(parser.Parse(Head("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n")).status,
            Status::kNeedMore);
  EXPECT_TRUE(parser.TakeContinue());
  parser.Reset();
  EXPECT_EQ(StatusOf(Head("Expect: payment\r\nContent-Length: 2\r\n")), 417);
}

TEST(RequestParser, AnErrorStaysUntilReset) {
  RequestParser parser;
  EXPECT_EQ(parser.Parse("bad\r\n\r\n").status, Status::kError);
  EXPECT_EQ(parser.Parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, Status::kError);
  parser.Reset();
  EXPECT_EQ(parser.Parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, Status::kRequest);
}

std::string RandomRequest(Random& random) {
  const auto pick = [&](auto... texts) {
    const std::string_view all[] = {texts...};
    return std::string(all[random.Below(sizeof...(texts))]);
  };
  std::string body(random.Below(3) == 0 ? random.Below(600) : random.Below(20), 'b');
  for (char& c : body) c = static_cast<char>(random.Next());
  std::string out = pick("", "", "", "\r\n", "\r\n\r\n");
  out += pick("GET", "POST", "PUT", "DELETE", "BREW", "HEAD");
  out += pick(" / ", " /v1/check ", " /v1/limits/a/b?user=4%202 ", " http://h/x?y ");
  out += pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0") + "\r\nHost: " + pick("a", "localhost:8080") +
         "\r\n";
  for (uint64_t i = random.Below(6); i > 0; --i) {
    out += pick("X-Forwarded-For", "Accept", "authorization", "X-Y", "User-Agent", "Connection") + ":" +
           pick("", " ", "\t") + pick("keep-alive", "10.0.0.1, 10.0.0.2", "close", "x") + pick("", " ") +
           "\r\n";
  }
  if (random.Below(20) == 0)
    out += pick("Content-Length: x\r\n", "A : b\r\n", "A: b\n", "Expect: x\r\n", " x\r\n");
  if (random.Below(2) == 0) {
    out += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    return out;
  }
  out += "Transfer-Encoding: chunked\r\n\r\n";
  std::string_view rest = body;
  while (!rest.empty()) {
    const size_t size = 1 + random.Below(rest.size());
    char digits[24];
    std::snprintf(digits, sizeof digits, "%zx", size);
    out += digits + pick("", "", ";a=b") + "\r\n" + std::string(rest.substr(0, size)) + "\r\n";
    rest.remove_prefix(size);
  }
  return out + "0\r\n" + pick("", "", "T: v\r\n") + "\r\n";
}

TEST(RequestParser, HowThePipelineIsCutChangesNothing) {
  Random random(TestSeed());
  size_t requests = 0;
  size_t errors = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bytes;
    for (uint64_t i = 1 + random.Below(6); i > 0; --i) bytes += RandomRequest(random);
    if (random.Below(4) == 0) bytes[random.Below(bytes.size())] = static_cast<char>(random.Next());
    if (random.Below(4) == 0) bytes.resize(random.Below(bytes.size()) + 1);
    const Limits limits{.max_head_bytes = 200, .max_headers = 6, .max_body_bytes = 500};
    const auto whole = ParseWhole(bytes, limits);
    ASSERT_EQ(whole, ParseAll(bytes, limits, [] { return size_t{1}; })) << bytes;
    ASSERT_EQ(whole, ParseAll(bytes, limits, [&] { return size_t{1 + random.Below(40)}; })) << bytes;
    requests += whole.size();
    errors += !whole.empty() && whole.back()[0] >= '0' && whole.back()[0] <= '9' ? 1 : 0;
  }
  EXPECT_GT(requests, 400u);
  EXPECT_GT(errors, 100u);
}

}  // namespace
}  // namespace penstock::http
