#include "http/response_writer.h"

#include <gtest/gtest.h>

#include "http/response_parser.h"

namespace penstock::http {
namespace {

TEST(ResponseWriter, WritesHeadAndBody) {
  std::string out = "before";
  ResponseWriter writer(out, {.date = "Sun, 06 Nov 1994 08:49:37 GMT"}, 200);
  EXPECT_TRUE(writer.Header("X-A", "b"));
  writer.Header("X-N", -5);
  writer.Body("text/plain", "hello");
  EXPECT_EQ(out,
            "beforeHTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-A: b\r\nX-N: -5\r\n"
            "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
}

TEST(ResponseWriter, ConnectionIsSaidWhereItIsNotTheVersionsOwn) {
  const auto head = [](const ReplyShape& shape) {
    std::string out;
    ResponseWriter(out, shape, 429).NoBody();
    return out;
  };
  EXPECT_EQ(head({}), "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(head({.keep_alive = false}),
            "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(head({.http10 = true}),
            "HTTP/1.1 429 Too Many Requests\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(head({.keep_alive = false, .http10 = true}),
            "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
}

TEST(ResponseWriter, BodyWrittenInPlaceHasTheRightLengthWhateverItsSize) {
  for (const size_t size : {0u, 7u, 99u, 100u, 999u, 1'000u, 123'456u}) {
    const std::string body(size, 'x');
    std::string at_once;
    ResponseWriter(at_once, {}, 200).Body("a/b", body);
    std::string in_place = "other";
    ResponseWriter writer(in_place, {}, 200);
    writer.BeginBody("a/b") += body;
    writer.EndBody();
    EXPECT_EQ(in_place, "other" + at_once);
  }
}

TEST(ResponseWriter, HeadHasTheLengthButNotTheBody) {
  std::string out;
  ResponseWriter(out, {.head_only = true}, 200).Body("a/b", "hello");
  EXPECT_EQ(out, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\n");
  std::string in_place;
  ResponseWriter writer(in_place, {.head_only = true}, 200);
  writer.BeginBody("a/b") += "hello";
  writer.EndBody();
  EXPECT_EQ(in_place, out);
}

TEST(ResponseWriter, StatusesWithoutABodyHaveNone) {
  for (const int status : {204, 304}) {
    const std::string line =
        "HTTP/1.1 " + std::to_string(status) + " " + std::string(ReasonPhrase(status)) + "\r\n\r\n";
    std::string out;
    ResponseWriter(out, {}, status).Body("a/b", "hello");
    EXPECT_EQ(out, line);
    out.clear();
    ResponseWriter writer(out, {}, status);
    writer.BeginBody("a/b") += "hello";
    writer.EndBody();
    EXPECT_EQ(out, line);
    out.clear();
    ResponseWriter(out, {}, status).NoBody();
    EXPECT_EQ(out, line);
  }
}

TEST(ResponseWriter, NothingCanBeInjectedThroughAHeader) {
  using namespace std::string_view_literals;
  std::string out;
  ResponseWriter writer(out, {}, 200);
  const std::string before = out;
  for (const auto value : {"a\r\nSet-Cookie: x"sv, "a\nb"sv, "a\rb"sv, "a\0b"sv, "\x1b"sv, "\x7f"sv}) {
    EXPECT_FALSE(writer.Header("X-A", value));
    writer.OpenHeader("X-A") += value;
    EXPECT_FALSE(writer.CloseHeader());
  }
  EXPECT_EQ(out, before);
  writer.OpenHeader("X-A") += "b\tc";
  EXPECT_TRUE(writer.CloseHeader());
  EXPECT_EQ(out, before + "X-A: b\tc\r\n");
}

TEST(ResponseWriter, StatusesHaveTheirNames) {
  EXPECT_EQ(ReasonPhrase(200), "OK");
  EXPECT_EQ(ReasonPhrase(429), "Too Many Requests");
  EXPECT_EQ(ReasonPhrase(503), "Service Unavailable");
  EXPECT_EQ(ReasonPhrase(507), "Insufficient Storage");
  EXPECT_EQ(ReasonPhrase(299), "");
  EXPECT_EQ(ReasonPhrase(999), "");
}

TEST(ResponseWriter, DatesAreWrittenAsHttpWantsThem) {
  const auto date = [](int64_t seconds) {
    std::string out;
    AppendHttpDate(out, seconds);
    return out;
  };
  EXPECT_EQ(date(784'111'777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(date(951'782'400), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(date(-5), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(date(INT64_MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

TEST(ResponseWriter, WhatIsWrittenCanBeParsed) {
  std::string out;
  ResponseWriter writer(out, {}, 503);
  writer.Header("Retry-After", 3);
  writer.Body("text/plain", "later");
  ResponseParser parser;
  ASSERT_EQ(parser.Parse(out).status, ResponseParser::Status::kResponse);
  EXPECT_EQ(parser.response().status, 503);
  EXPECT_EQ(parser.response().Find("retry-after"), "3");
  EXPECT_EQ(parser.response().body, "later");
}

}  // namespace
}  // namespace penstock::http
