#include "http/structured_fields.h"

#include <gtest/gtest.h>

#include "http/problem.h"

namespace penstock::http {
namespace {

TEST(StructuredFields, PolicyItemsAreAList) {
  std::string out;
  RateLimitList list(out);
  list.Policy({.name = "per-user", .quota = 100, .window = Seconds(60)});
  list.Policy({.name = "burst", .quota = 20, .window = Micros{1}});
  list.Policy({.name = "tpm", .quota = 500'000, .window = Seconds(60), .unit = "tokens"});
  list.Policy({.name = "plain", .quota = 5, .unit = "requests"});
  EXPECT_EQ(out, R"("per-user";q=100;w=60, "burst";q=20;w=1, "tpm";q=500000;qu="tokens";w=60, "plain";q=5)");
}

TEST(StructuredFields, LimitItemsRoundTheWaitUp) {
  std::string out;
  RateLimitList list(out);
  list.Limit({.name = "per-user", .remaining = 50, .wait = Micros{29'000'001}});
  list.Limit({.name = "a", .remaining = 0});
  list.Limit({.name = "b", .remaining = 1, .wait = Micros{0}});
  EXPECT_EQ(out, R"("per-user";r=50;t=30, "a";r=0, "b";r=1;t=0)");
}

TEST(StructuredFields, NamesAreEscaped) {
  std::string out;
  AppendFieldString(out, "a\"b\\c\r\n\xc3\xbc~");
  EXPECT_EQ(out, R"("a\"b\\c????~")");
}

TEST(StructuredFields, IntegersStayWithinFifteenDigits) {
  std::string out;
  RateLimitList list(out);
  list.Policy({.name = "a", .quota = INT64_MAX, .window = Micros{INT64_MAX}});
  EXPECT_EQ(out, R"("a";q=999999999999999;w=9223372036855)");
}

TEST(StructuredFields, PlainHeadersOfALimit) {
  std::string out;
  ResponseWriter writer(out, {}, 429);
  WriteRetryAfter(writer, Micros{1});
  WritePlainRateLimit(writer, {.limit = 20, .remaining = 0, .reset = Micros{11'999'999}});
  writer.NoBody();
  EXPECT_EQ(out,
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nX-RateLimit-Limit: 20\r\n"
            "X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 12\r\nContent-Length: 0\r\n\r\n");
}

TEST(Problem, HasItsMembers) {
  std::string out;
  AppendProblem(out, {.status = 404});
  EXPECT_EQ(out, R"({"title":"Not Found","status":404})");

  out.clear();
  AppendProblem(out, {.status = 400, .detail = "no \"limit\"", .members = R"("line":3)"});
  EXPECT_EQ(out, R"({"title":"Bad Request","status":400,"detail":"no \"limit\"","line":3})");

  out.clear();
  const std::string_view violated[] = {"per-user", "login"};
  AppendProblem(out, {.status = 429,
                      .type = kQuotaExceeded,
                      .title = "Quota exceeded",
                      .detail = "try later",
                      .instance = "/v1/check",
                      .violated_policies = violated});
  EXPECT_EQ(
      out,
      R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded",)"
      R"("status":429,"detail":"try later","instance":"/v1/check","violated-policies":["per-user","login"]})");

  out.clear();
  AppendProblem(out, {.status = 299});
  EXPECT_EQ(out, R"({"status":299})");
}

TEST(Problem, ResponseIsNeverCached) {
  std::string out;
  WriteProblem(out, {.keep_alive = false}, {.status = 413, .detail = "the body is too large"});
  EXPECT_EQ(out,
            "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nCache-Control: no-store\r\n"
            "Content-Type: application/problem+json\r\nContent-Length: 75\r\n\r\n"
            R"({"title":"Content Too Large","status":413,"detail":"the body is too large"})");
}

}  // namespace
}  // namespace penstock::http
