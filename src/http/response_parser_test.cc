#include "http/response_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "http/request_parser.h"
#include "http/request_writer.h"

namespace penstock::http {
namespace {

using Status = ResponseParser::Status;

std::vector<std::string> ParseInPieces(std::string_view bytes, size_t piece_size, bool finish) {
  std::vector<std::string> out;
  ResponseParser parser({.max_head_bytes = 200, .max_headers = 4, .max_body_bytes = 100});
  std::string unread;
  const auto describe = [&] {
    const Response& response = parser.response();
    std::string text = std::to_string(response.status) + " " + std::string(response.reason);
    text += response.keep_alive ? " keep" : " close";
    for (const Header& header : response.headers) {
      text += "|" + std::string(header.name) + "=" + std::string(header.value);
    }
    out.push_back(text + "|" + std::string(response.body));
  };
  while (!bytes.empty()) {
    unread.append(bytes.substr(0, piece_size));
    bytes.remove_prefix(std::min(piece_size, bytes.size()));
    for (;;) {
      const std::vector<char> copy(unread.begin(), unread.end());
      const auto step = parser.Parse({copy.data(), copy.size()});
      if (step.status == Status::kResponse) describe();
      unread.erase(0, step.consumed);
      if (step.status == Status::kError) {
        out.emplace_back("error: " + std::string(parser.error().sentence));
        return out;
      }
      if (step.status == Status::kNeedMore) break;
    }
  }
  if (!finish) return out;
  const Status status = parser.Finish();
  if (status == Status::kResponse) describe();
  if (status == Status::kError) out.emplace_back("error: " + std::string(parser.error().sentence));
  return out;
}

// What comes out, the same however it is cut.
std::vector<std::string> ParseAll(const std::string& bytes, bool finish = false) {
  const auto whole = ParseInPieces(bytes, bytes.size(), finish);
  EXPECT_EQ(whole, ParseInPieces(bytes, 1, finish)) << bytes;
  EXPECT_EQ(whole, ParseInPieces(bytes, 7, finish)) << bytes;
  return whole;
}

bool Fails(const std::string& bytes, bool finish = false) {
  const auto all = ParseAll(bytes, finish);
  return !all.empty() && all.back().starts_with("error");
}

TEST(ResponseParser, BodiesOfEveryFraming) {
  const auto all = ParseAll(
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
      "HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
      "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n"
      "HTTP/1.1 304 \r\n\r\n"
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
      "HTTP/1.0 200 OK\r\n\r\nuntil the end",
      true);
  EXPECT_EQ(all, (std::vector<std::string>{"200 OK keep|Content-Length=3|one",
                                           "429 Too Many keep|Retry-After=3|Transfer-Encoding=chunked|two",
                                           "204 No Content keep|Content-Length=3|", "304  keep|",
                                           "200 OK keep|Content-Length=0|", "200 OK close|until the end"}));
}

TEST(ResponseParser, AResponseToHeadHasNoBody) {
  ResponseParser parser;
  const std::string_view bytes = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 201 Created\r\n";
  const auto step = parser.Parse(bytes, true);
  EXPECT_EQ(step.status, Status::kResponse);
  EXPECT_EQ(step.consumed, bytes.find("HTTP/1.1 201"));
  EXPECT_EQ(parser.response().Find("content-length"), "3");
}

TEST(ResponseParser, WhatIsMalformedIsRefused) {
  EXPECT_TRUE(Fails("\r\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 20 OK\r\n\r\n"));
  EXPECT_TRUE(Fails("HTTP/2.0 200 OK\r\n\r\n"));
  EXPECT_TRUE(Fails("nonsense\r\n\r\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\nA: b\n\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n"));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\n\r\n" + std::string(101, 'x')));
  EXPECT_TRUE(Fails("HTTP/1.1 200 " + std::string(200, 'x')));
  std::string interim;
  for (int i = 0; i < 9; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_TRUE(Fails(interim));
}

TEST(ResponseParser, TheEndOfTheConnectionWithinAResponseIsAnError) {
  EXPECT_EQ(ParseAll("", true).size(), 0u);
  EXPECT_FALSE(Fails("HTTP/1.1 204 No Content\r\n\r\n", true));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\n", true));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true));
  EXPECT_TRUE(Fails("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", true));
}

TEST(ResponseParser, HowRandomResponsesAreCutChangesNothing) {
  Random random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (uint64_t i = 1 + random.Below(4); i > 0; --i) {
      const std::string body(random.Below(30), 'x');
      const bool bodyless = random.Below(5) == 0;
      bytes += bodyless ? "HTTP/1.1 204 None\r\n" : "HTTP/1.1 200 OK\r\nA:  b \r\n";
      bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
      if (!bodyless) bytes += body;
    }
    if (random.Below(2) == 0) bytes[random.Below(bytes.size())] = static_cast<char>(random.Next());
    ParseAll(bytes, true);
    ASSERT_FALSE(::testing::Test::HasFailure()) << bytes;
  }
}

TEST(RequestWriter, WhatIsWrittenCanBeParsed) {
  std::string out;
  const Header headers[] = {{"Authorization", "Bearer t"}};
  ASSERT_TRUE(AppendRequest(out, {.method = "POST",
                                  .target = "/v1/check?a=b",
                                  .host = "localhost:8080",
                                  .headers = headers,
                                  .content_type = "application/json",
                                  .body = "{}"}));
  ASSERT_TRUE(AppendRequest(out, {.host = "h", .keep_alive = false}));
  RequestParser parser;
  const auto step = parser.Parse(out);
  ASSERT_EQ(step.status, RequestParser::Status::kRequest);
  EXPECT_EQ(parser.request().target, "/v1/check?a=b");
  EXPECT_EQ(parser.request().Get(Known::kAuthorization), "Bearer t");
  EXPECT_EQ(parser.request().Find("content-type"), "application/json");
  EXPECT_EQ(parser.request().body, "{}");
  ASSERT_EQ(parser.Parse(std::string_view(out).substr(step.consumed)).status,
            RequestParser::Status::kRequest);
  EXPECT_EQ(parser.request().target, "/");
  EXPECT_FALSE(parser.request().keep_alive);
}

TEST(RequestWriter, APostWithoutABodySaysSo) {
  std::string out;
  ASSERT_TRUE(AppendRequest(out, {.method = "POST", .host = "h"}));
  EXPECT_EQ(out, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
}

TEST(RequestWriter, WhatCouldNotStandThereIsRefused) {
  std::string out = "kept";
  const Header injected[] = {{"A", "b\r\nC: d"}};
  const Header bad_name[] = {{"A B", "b"}};
  EXPECT_FALSE(AppendRequest(out, {.host = "h", .headers = injected}));
  EXPECT_FALSE(AppendRequest(out, {.host = "h", .headers = bad_name}));
  EXPECT_FALSE(AppendRequest(out, {.target = "/a b", .host = "h"}));
  EXPECT_FALSE(AppendRequest(out, {.target = "", .host = "h"}));
  EXPECT_FALSE(AppendRequest(out, {.method = "G T", .host = "h"}));
  EXPECT_FALSE(AppendRequest(out, {.host = "h\nx"}));
  EXPECT_EQ(out, "kept");
}

}  // namespace
}  // namespace penstock::http
