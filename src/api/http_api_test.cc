#include "api/http_api.h"

#include <gtest/gtest.h>

#include "api/testing/http_on_fakes.h"

namespace penstock::api {
namespace {

using HttpApiTest = HttpOnFakes;

TEST_F(HttpApiTest, AnAllowedCheckSaysSoInStatusHeadersAndBody) {
  const std::string out = Post("/v1/check", R"({"domain":"api","attributes":{"user":"42"},"cost":3})");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 OK\r\n")) << out;
  EXPECT_TRUE(Has(out, "RateLimit-Policy: \"per-user\";q=20;w=12\r\n")) << out;
  EXPECT_TRUE(Has(out, "RateLimit: \"per-user\";r=19;t=1\r\n")) << out;
  EXPECT_TRUE(Has(out, "X-RateLimit-Limit: 20\r\n")) << out;
  EXPECT_TRUE(Has(out, "X-RateLimit-Remaining: 19\r\n")) << out;
  EXPECT_TRUE(Has(out, "X-RateLimit-Reset: 1\r\n")) << out;
  EXPECT_FALSE(Has(out, "Retry-After")) << out;
  EXPECT_TRUE(Has(out,
                  R"({"allowed":true,"outcome":"allowed","limit":20,"remaining":19,"retry_after_ms":0,)"
                  R"("reset_after_ms":600,"wait_ms":0,"degraded":false,"limits":[{"name":"per-user",)"
                  R"("outcome":"allowed","limit":20,"remaining":19,"retry_after_ms":0,"reset_after_ms":600,)"
                  R"("shadow":false}]})"))
      << out;
  ASSERT_EQ(decider_.asked().size(), 1u);
  EXPECT_EQ(decider_.asked()[0].domain, "api");
  EXPECT_EQ(decider_.asked()[0].cost, 3);
  EXPECT_EQ(decider_.asked()[0].attributes[0].second, "42");
}

TEST_F(HttpApiTest, ADeniedCheckIs429WithTheWaitRoundedUp) {
  decider_.answer = [](const auto&) { return FakeDecider::Denied(); };
  const std::string out = Post("/v1/check", R"({"domain":"api"})");
  EXPECT_TRUE(Has(out, "HTTP/1.1 429 ")) << out;
  EXPECT_TRUE(Has(out, "Retry-After: 2\r\n")) << out;
  EXPECT_TRUE(Has(out, "RateLimit: \"per-user\";r=0;t=2\r\n")) << out;
  EXPECT_TRUE(Has(out, "Cache-Control: no-store\r\n")) << out;
  EXPECT_TRUE(Has(out, R"("retry_after_ms":1001)")) << out;
}

TEST_F(HttpApiTest, NeverIs429WithoutAWait) {
  decider_.answer = [](const auto&) { return FakeDecider::Never(); };
  const std::string out = Post("/v1/check", R"({"domain":"api"})");
  EXPECT_TRUE(Has(out, "HTTP/1.1 429 ")) << out;
  EXPECT_FALSE(Has(out, "Retry-After")) << out;
  EXPECT_TRUE(Has(out, R"("outcome":"never","limit":20,"remaining":0,"retry_after_ms":null)")) << out;
}

TEST_F(HttpApiTest, UnavailableIs503UnlessItAllows) {
  decider_.answer = [](const auto&) { return FakeDecider::Unavailable(); };
  const std::string refused = Post("/v1/check", R"({"domain":"api"})");
  EXPECT_TRUE(Has(refused, "HTTP/1.1 503 ")) << refused;
  EXPECT_TRUE(Has(refused, R"("outcome":"unavailable","limit":null,"remaining":null,"retry_after_ms":null)"))
      << refused;
  EXPECT_TRUE(Has(refused, R"("degraded":true,"reason":"full")")) << refused;
  decider_.answer = [](const auto&) {
    Decision d = FakeDecider::Unavailable();
    d.allowed = true;
    return d;
  };
  EXPECT_TRUE(Has(Post("/v1/check", R"({"domain":"api"})"), "HTTP/1.1 200 "));
}

TEST_F(HttpApiTest, ErrorsOfTheServiceAreProblemsWithTheirStatus) {
  decider_.answer = [](const auto&) -> Result<Decision> {
    return Fail(ErrorKind::kNotFound, "unknown domain \"x\"");
  };
  const std::string out = Post("/v1/check", R"({"domain":"x"})");
  EXPECT_TRUE(Has(out, "HTTP/1.1 404 ")) << out;
  EXPECT_TRUE(Has(out, "application/problem+json")) << out;
  EXPECT_TRUE(Has(out, R"("detail":"unknown domain \"x\"")")) << out;
  decider_.answer = [](const auto&) -> Result<Decision> { return Fail(ErrorKind::kConflict, "taken"); };
  EXPECT_TRUE(Has(Post("/v1/check", R"({"domain":"x"})"), "HTTP/1.1 409 "));
}

TEST_F(HttpApiTest, AnArrayAnswersEachItemInItsPlace) {
  decider_.answer = [](const FakeDecider::Asked& a) -> Result<Decision> {
    if (a.domain == "no") return FakeDecider::Denied();
    if (a.domain == "gone") return Fail(ErrorKind::kNotFound, "unknown domain");
    return FakeDecider::Allowed();
  };
  const std::string out =
      Post("/v1/check", R"([{"domain":"yes"},{"domain":"no"},{"domain":"gone"},{"domian":"typo"},7])");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  const size_t body = out.find("\r\n\r\n") + 4;
  EXPECT_EQ(out.substr(body, 24), R"([{"status":200,"allowed")") << out;
  EXPECT_TRUE(Has(out, R"({"status":429,"allowed":false)")) << out;
  EXPECT_TRUE(Has(out, R"("status":404)")) << out;
  EXPECT_TRUE(Has(out, R"(did you mean \"domain\")")) << out;
  EXPECT_TRUE(Has(out, "a check must be a JSON object")) << out;
}

TEST_F(HttpApiTest, PipelinedChecksAreOneBatchAndKeepTheirOrder) {
  int flushed_together = 0;
  decider_.answer = [&](const FakeDecider::Asked& a) {
    ++flushed_together;
    return a.domain == "a" ? FakeDecider::Allowed() : FakeDecider::Denied();
  };
  const std::string out =
      Send(PostText("/v1/check", R"({"domain":"a"})") + PostText("/v1/check", R"({"domain":"b"})"));
  EXPECT_EQ(flushed_together, 2);
  EXPECT_LT(out.find("200 OK"), out.find("429 "));
}

TEST_F(HttpApiTest, ALateDecisionWakesItsConnection) {
  decider_.hold = true;
  EXPECT_EQ(Post("/v1/check", R"({"domain":"a"})"), "");
  EXPECT_EQ(connection_.peer.woken, 0);
  decider_.Release();
  EXPECT_EQ(connection_.peer.woken, 1);
  EXPECT_TRUE(Has(TakeOutput(), "200 OK"));
}

TEST_F(HttpApiTest, ADecisionForAClosedConnectionGoesNowhere) {
  decider_.hold = true;
  Post("/v1/check", R"({"domain":"a"})");
  connection_.session.Detach();
  connection_.session.Open();
  decider_.Release();
  EXPECT_EQ(TakeOutput(), "");
}

TEST_F(HttpApiTest, BadBodiesNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "the array is empty"},
      {"7", "must be a JSON object"},
      {"{}", "either"},
      {R"({"domain":"a","key":"b"})", "either"},
      {R"({"domain":7})", "domain: must be a string"},
      {R"({"domain":"a","attributes":{"u":1}})", "attributes.u: must be a string"},
      {R"({"domain":"a","cost":1.5})", "cost: must be a whole number"},
      {R"({"domain":"a","cost":9223372036854775808})", "cost: is out of range"},
      {R"({"domain":"a","costs":{}})", "costs: names no unit"},
      {R"({"domain":"a","cost":1,"costs":{"t":1}})", "exclude each other"},
      {R"({"domain":"a","max_wait_ms":60001})", "max_wait_ms: must be from 0 to 60000"},
      {R"({"domain":"a","request_id":""})", "request_id: must be 1 to 128 bytes"},
      {R"({"domain":"a","lease_ms":0})", "lease_ms: must be from 100 to 86400000"},
      {R"({"domain":"a","lease_ms":86400001})", "lease_ms: must be from 100 to 86400000"},
      {R"({"domain":"a","holder":""})", "holder: must be 1 to 128 bytes"},
      {R"({"domain":"a","force":1})", "force: must be true or false"},
      {R"({"key":"k"})", "limit.rate: is missing"},
      {R"({"key":"k","limit":{"rate":"100/fortnight"}})", "limit.rate: "},
      {R"({"key":"k","limit":{"rate":"100/min","algorithm":"token_buckets"}})",
       "did you mean \\\"token_bucket\\\""},
      {R"({"domain":"a","limit":{"rate":"1/s"}})", "belongs to a key"},
  };
  for (const auto& [body, expected] : cases) {
    const std::string out = Post("/v1/check", body);
    EXPECT_TRUE(Has(out, "HTTP/1.1 400 ")) << body << "\n" << out;
    EXPECT_TRUE(Has(out, expected)) << body << "\n" << out;
  }
  EXPECT_TRUE(decider_.asked().empty());
}

TEST_F(HttpApiTest, AnAdHocLimitIsReadInThePolicysWords) {
  Post("/v1/check", R"({"key":"user:42","limit":{"rate":"100/min","burst":20}})");
  ASSERT_EQ(decider_.asked().size(), 1u);
  const core::RateSpec& spec = *decider_.asked()[0].ad_hoc;
  EXPECT_EQ(decider_.asked()[0].ad_hoc_key, "user:42");
  EXPECT_EQ(spec.count, 100);
  EXPECT_EQ(spec.period, Seconds(60));
  EXPECT_EQ(spec.burst, 20);
  EXPECT_EQ(spec.algorithm, core::Algorithm::kTokenBucket);
}

TEST_F(HttpApiTest, SettleNeedsAnIdAndCosts) {
  EXPECT_TRUE(Has(Post("/v1/settle", R"({"domain":"a","costs":{"t":1}})"), "request_id: is missing"));
  EXPECT_TRUE(Has(Post("/v1/settle", R"({"domain":"a","request_id":"r"})"), "costs: is missing"));
  EXPECT_TRUE(decider_.asked().empty());
  EXPECT_TRUE(Has(Post("/v1/settle", R"({"domain":"a","request_id":"r","costs":{"t":5}})"), "200 OK"));
  EXPECT_TRUE(
      Has(Post("/v1/settle", R"({"domain":"a","request_id":"r","cost":5,"costs":{"t":5}})"), "exclude"));
  ASSERT_EQ(decider_.asked().size(), 1u);
  EXPECT_EQ(decider_.asked()[0].mode, engine::Mode::kSettle);
}

// The charge stands, so a client that repeats a 429 must not be told to come again.
TEST_F(HttpApiTest, ASettlementThatPassesTheCapacityIsDoneAllTheSame) {
  decider_.answer = [](const auto&) { return FakeDecider::Denied(); };
  const std::string out = Post("/v1/settle", R"({"domain":"a","request_id":"r","costs":{"t":5}})");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_FALSE(Has(out, "Retry-After")) << out;
  EXPECT_TRUE(Has(out, R"("outcome":"denied")")) << out;
  decider_.answer = [](const auto&) { return FakeDecider::Unavailable(); };
  EXPECT_TRUE(Has(Post("/v1/settle", R"({"domain":"a","request_id":"r","costs":{"t":5}})"), "HTTP/1.1 503 "));
}

TEST_F(HttpApiTest, ForwardAuthDescribesTheRequestAndAnswersByStatus) {
  options_.trusted_proxies = {*Cidr::Parse("127.0.0.0/8")};
  const std::string out = Get("/auth/api?cost=2&header=X-User:user",
                              "X-Original-URI: /a/../login?x=1\r\nX-Original-Method: PUT\r\nX-User: 42\r\n"
                              "X-Forwarded-For: 9.9.9.9, 10.0.0.7\r\n");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_TRUE(Has(out, "X-Penstock-Outcome: allowed")) << out;
  ASSERT_EQ(decider_.asked().size(), 1u);
  const auto& attributes = decider_.asked()[0].attributes;
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"method", "PUT"}, {"path", "/login"}, {"host", "h"}, {"ip", "10.0.0.7"}, {"user", "42"}};
  EXPECT_EQ(attributes, expected);
  EXPECT_EQ(decider_.asked()[0].cost, 2);
}

TEST_F(HttpApiTest, ForwardAuthBelievesNobodyByDefault) {
  Get("/auth/api", "X-Original-URI: /login\r\nX-Forwarded-For: 9.9.9.9\r\n");
  ASSERT_EQ(decider_.asked().size(), 1u);
  const auto& attributes = decider_.asked()[0].attributes;
  EXPECT_EQ(attributes[1].second, "/");
  EXPECT_EQ(attributes[3].second, "127.0.0.1");
}

TEST_F(HttpApiTest, ForwardAuthDenialsTakeTheStatusAsked) {
  decider_.answer = [](const auto&) { return FakeDecider::Denied(); };
  EXPECT_TRUE(Has(Get("/auth/api"), "HTTP/1.1 429 "));
  const std::string out = Get("/auth/api?deny_status=403");
  EXPECT_TRUE(Has(out, "HTTP/1.1 403 ")) << out;
  EXPECT_TRUE(Has(out, "Retry-After: 2\r\n")) << out;
  EXPECT_TRUE(Has(Get("/auth/api?deny_status=200"), "HTTP/1.1 400 "));
  EXPECT_TRUE(Has(Get("/auth/api?cots=1"), "HTTP/1.1 400 "));
}

TEST_F(HttpApiTest, ATokenIsAskedForEverywhereButForHealth) {
  options_.token = "secret";
  EXPECT_TRUE(Has(Post("/v1/check", R"({"domain":"a"})"), "HTTP/1.1 401 "));
  EXPECT_TRUE(
      Has(Post("/v1/check", R"({"domain":"a"})", "Authorization: Bearer wrong\r\n"), "HTTP/1.1 401 "));
  EXPECT_TRUE(decider_.asked().empty());
  EXPECT_TRUE(
      Has(Post("/v1/check", R"({"domain":"a"})", "Authorization: Bearer secret\r\n"), "HTTP/1.1 200 "));
  EXPECT_TRUE(Has(Get("/metrics"), "HTTP/1.1 401 "));
  EXPECT_TRUE(Has(Get("/auth/a", "Authorization: Bearer secret\r\n"), "HTTP/1.1 401 "));
  EXPECT_TRUE(Has(Get("/auth/a", "X-Penstock-Token: secret\r\n"), "HTTP/1.1 200 "));
  EXPECT_TRUE(Has(Get("/healthz"), "HTTP/1.1 200 "));
  EXPECT_TRUE(Has(Get("/readyz"), "HTTP/1.1 200 "));
}

TEST_F(HttpApiTest, BucketsAreLookedAtAndReset) {
  Get("/v1/limits/api/per-user/buckets?user=a%20b");
  Get("/v1/limits/api/per-user/buckets?user=42", "", "DELETE");
  ASSERT_EQ(decider_.asked().size(), 2u);
  EXPECT_TRUE(decider_.asked()[0].look);
  EXPECT_EQ(decider_.asked()[0].only_limit, "per-user");
  EXPECT_EQ(decider_.asked()[0].attributes[0].second, "a b");
  EXPECT_EQ(decider_.asked()[1].mode, engine::Mode::kReset);
}

TEST_F(HttpApiTest, UnknownPathsAndMethodsAreRefused) {
  EXPECT_TRUE(Has(Get("/v1/chekc"), "HTTP/1.1 404 "));
  EXPECT_TRUE(Has(Get("/v1/limits/only-a-domain"), "HTTP/1.1 404 "));
  const std::string out = Get("/v1/check");
  EXPECT_TRUE(Has(out, "HTTP/1.1 405 ")) << out;
  EXPECT_TRUE(Has(out, "Allow: POST\r\n")) << out;
  EXPECT_TRUE(Has(out, "application/problem+json")) << out;
  EXPECT_TRUE(Has(out, R"("status":405,"detail":"this path takes POST"})")) << out;
  EXPECT_TRUE(Has(Get("/metrics", "", "POST"), R"("detail":"this path takes GET, HEAD"})"));
  const std::string limits = Get("/v1/limits/api/per-user/buckets?user=1", "", "PUT");
  EXPECT_TRUE(Has(limits, "Allow: GET, HEAD, DELETE\r\n")) << limits;
  EXPECT_TRUE(Has(limits, R"("status":405,"detail":"this path takes GET, HEAD, DELETE"})")) << limits;
}

TEST_F(HttpApiTest, ReadinessSaysWhatIsMissing) {
  server_.why_not = "no policy is loaded";
  const std::string out = Get("/readyz");
  EXPECT_TRUE(Has(out, "HTTP/1.1 503 ")) << out;
  EXPECT_TRUE(Has(out, "no policy is loaded")) << out;
  EXPECT_TRUE(Has(Get("/metrics"), "penstock_keys 3"));
}

}  // namespace
}  // namespace penstock::api
