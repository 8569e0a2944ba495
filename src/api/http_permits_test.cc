// Permits over HTTP: what a check may say and is told of them, release and renewal.
#include "api/testing/http_on_fakes.h"

namespace penstock::api {
namespace {

using HttpPermitsTest = HttpOnFakes;
using core::PermitFate;

TEST_F(HttpPermitsTest, AGrantIsTellingItsIdItsFenceAndWhatIsLeftOfTheLeaseRoundedDown) {
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  const std::string out =
      Post("/v1/check", R"({"domain":"a","weight":2,"holder":"w-1","lease_ms":30000,"max_wait_ms":5000})");
  EXPECT_TRUE(Has(out, R"("shadow":false,"fence":17,"expires_in_ms":29999}],)"
                       R"("permit":{"id":"permit-1","fence":17,"expires_in_ms":29999,"waited_ms":1500}})"))
      << out;
  ASSERT_EQ(decider_.asked().size(), 1u);
  EXPECT_EQ(decider_.asked()[0].weight, 2);
  EXPECT_EQ(decider_.asked()[0].holder, "w-1");
  EXPECT_EQ(decider_.asked()[0].lease_ms, 30'000);
  EXPECT_EQ(decider_.asked()[0].max_wait_ms, 5'000);
}

TEST_F(HttpPermitsTest, APermitOfSeveralLimitsHasNoFenceOfItsOwn) {
  decider_.answer = [](const auto&) {
    Decision d = FakeDecider::Granted();
    d.permit->fence.reset();
    return d;
  };
  const std::string out = Post("/v1/check", R"({"domain":"a"})");
  EXPECT_TRUE(Has(out, R"("permit":{"id":"permit-1","expires_in_ms":29999,)")) << out;
}

TEST_F(HttpPermitsTest, AnAdHocSemaphoreIsReadInThePolicysWords) {
  Post("/v1/check", R"({"key":"sema:api","limit":{"permits":5,"lease":"2min"}})");
  Post("/v1/check", R"({"key":"sema:api","limit":{"permits":5}})");
  ASSERT_EQ(decider_.asked().size(), 2u);
  const core::RateSpec& spec = *decider_.asked()[0].ad_hoc;
  EXPECT_EQ(decider_.asked()[0].ad_hoc_key, "sema:api");
  EXPECT_EQ(spec.algorithm, core::Algorithm::kPermits);
  EXPECT_EQ(spec.count, 5);
  EXPECT_EQ(spec.period, Seconds(120));
  EXPECT_EQ(decider_.asked()[1].ad_hoc->period, Seconds(30));
}

// C71.
TEST_F(HttpPermitsTest, WhatIsOutOfBoundsIsRefusedWithTheBounds) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"key":"k","limit":{"permits":5,"lease":"1ms"}})", "limit.lease: must be from 100ms to 24h"},
      {R"({"key":"k","limit":{"permits":5,"lease":"365d"}})", "limit.lease: must be from 100ms to 24h"},
      {R"({"key":"k","limit":{"permits":5,"lease":"soon"}})", "limit.lease: "},
      {R"({"key":"k","limit":{"permits":5,"lease":30}})", "limit.lease: must be a string"},
      {R"({"key":"k","limit":{"permits":5,"lease":""}})", "limit.lease: must be 1 to 64 bytes"},
      {R"({"key":"k","limit":{"permits":0}})", "limit.permits: must be from 1 to 2147483647"},
      {R"({"key":"k","limit":{"permits":2147483648}})", "limit.permits: must be from 1 to 2147483647"},
      {R"({"key":"k","limit":{"permits":5,"rate":"1/s"}})", "a rate or permits, not both"},
      {R"({"key":"k","limit":{"permits":5,"burst":5}})", "go with a rate, not with permits"},
      {R"({"key":"k","limit":{"rate":"1/s","lease":"30s"}})", "limit.lease: goes with permits"},
      {R"({"domain":"a","lease_ms":1})", "lease_ms: must be from 100 to 86400000"},
      {R"({"domain":"a","limit":{"permits":5}})", "belongs to a key"},
  };
  for (const auto& [body, expected] : cases) {
    const std::string out = Post("/v1/check", body);
    EXPECT_TRUE(Has(out, "HTTP/1.1 400 ")) << body << "\n" << out;
    EXPECT_TRUE(Has(out, expected)) << body << "\n" << out;
  }
  EXPECT_TRUE(decider_.asked().empty());
}

TEST_F(HttpPermitsTest, ForwardAuthAsksForNoPermit) {
  Get("/auth/api");
  Post("/v1/check", R"({"domain":"api"})");
  ASSERT_EQ(decider_.asked().size(), 2u);
  EXPECT_TRUE(decider_.asked()[0].without_permits);
  EXPECT_FALSE(decider_.asked()[1].without_permits);
}

TEST_F(HttpPermitsTest, AReleaseTellsThePermitsFate) {
  for (const auto& [fate, text] : {std::pair{PermitFate::kReleased, "released"},
                                   {PermitFate::kExpired, "expired"},
                                   {PermitFate::kUnknown, "unknown"}}) {
    decider_.permits().answer = [&, fate = fate](const auto&) { return FakePermitDesk::Fate(fate); };
    const std::string out = Post("/v1/release", R"({"id":"p-1"})");
    EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
    EXPECT_TRUE(Has(out, "\r\n\r\n{\"result\":\"" + std::string(text) + "\"}")) << out;
  }
  EXPECT_EQ(decider_.permits().asked[0].verb, "release");
  EXPECT_EQ(decider_.permits().asked[0].id, "p-1");
}

TEST_F(HttpPermitsTest, WhatCouldNotBeAskedIs503) {
  decider_.permits().answer = [](const auto&) { return FakePermitDesk::Fate(PermitFate::kUnavailable); };
  for (const char* const path : {"/v1/release", "/v1/renew"}) {
    const std::string out = Post(path, R"({"id":"p-1"})");
    EXPECT_TRUE(Has(out, "HTTP/1.1 503 ")) << out;
    EXPECT_TRUE(Has(out, R"({"result":"unavailable","reason":"timeout"})")) << out;
  }
}

TEST_F(HttpPermitsTest, ARenewalTellsWhatIsLeft) {
  const std::string out = Post("/v1/renew", R"({"id":"p-1","lease_ms":30000})");
  EXPECT_TRUE(Has(out, R"({"result":"renewed","expires_in_ms":29999})")) << out;
  Post("/v1/renew", R"({"id":"p-1"})");
  ASSERT_EQ(decider_.permits().asked.size(), 2u);
  EXPECT_EQ(decider_.permits().asked[0].verb, "renew");
  EXPECT_EQ(decider_.permits().asked[0].lease_ms, 30'000);
  EXPECT_EQ(decider_.permits().asked[1].lease_ms, 0);
}

TEST_F(HttpPermitsTest, AnArrayIsAnsweredItemByItem) {
  decider_.permits().answer = [](const FakePermitDesk::Asked& asked) {
    return FakePermitDesk::Fate(asked.id == "b" ? PermitFate::kUnavailable : PermitFate::kReleased);
  };
  const std::string out = Post("/v1/release", R"([{"id":"a"},{"id":7},{"id":"b"}])");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_TRUE(Has(out, R"([{"status":200,"result":"released"},)")) << out;
  EXPECT_TRUE(Has(out, R"("status":400,"detail":"id: must be a string"},)")) << out;
  EXPECT_TRUE(Has(out, R"({"status":503,"result":"unavailable","reason":"timeout"}])")) << out;
  EXPECT_EQ(decider_.permits().asked.size(), 2u);
}

TEST_F(HttpPermitsTest, ABodyThatIsNoneChangesNothing) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not valid JSON"},
      {"[]", "the array is empty"},
      {"{}", "id: is missing"},
      {R"("p-1")", "must be a JSON object"},
      {R"({"id":1})", "id: must be a string"},
      {R"({"id":""})", "id: must be 1 to 4096 bytes"},
      {R"({"id":"p","ids":[]})", "did you mean \\\"id\\\""},
  };
  for (const char* const path : {"/v1/release", "/v1/renew"}) {
    for (const auto& [body, expected] : cases) {
      const std::string out = Post(path, body);
      EXPECT_TRUE(Has(out, "HTTP/1.1 400 ")) << path << body << "\n" << out;
      EXPECT_TRUE(Has(out, expected)) << path << body << "\n" << out;
    }
  }
  EXPECT_TRUE(Has(Post("/v1/release", R"({"id":"p","lease_ms":1000})"), "HTTP/1.1 400 "));
  EXPECT_TRUE(Has(Post("/v1/renew", R"({"id":"p","lease_ms":1})"), "lease_ms: must be from 100 to 86400000"));
  std::string many = "[";
  for (int i = 0; i < 1'001; ++i) many += (i > 0 ? R"(,{"id":"p"})" : R"({"id":"p"})");
  EXPECT_TRUE(Has(Post("/v1/release", many + "]"), "HTTP/1.1 413 "));
  EXPECT_TRUE(Has(Get("/v1/release"), "HTTP/1.1 405 "));
  EXPECT_TRUE(decider_.permits().asked.empty());
}

// What is given back is there for the check that was sent before it in the same read.
TEST_F(HttpPermitsTest, ReleasesOfAReadAreDoneBeforeItsChecks) {
  std::string order;
  decider_.permits().on_flush = [&] { order += "r"; };
  decider_.answer = [&](const auto&) {
    order += "c";
    return FakeDecider::Granted();
  };
  const std::string out =
      Send(PostText("/v1/check", R"({"domain":"a"})") + PostText("/v1/release", R"({"id":"p"})"));
  EXPECT_EQ(order, "rc");
  EXPECT_LT(out.find("permit-1"), out.find("released"));
}

TEST_F(HttpPermitsTest, AnAnswerThatComesLaterWakesItsConnection) {
  decider_.permits().hold = true;
  EXPECT_EQ(Post("/v1/release", R"({"id":"p"})"), "");
  EXPECT_EQ(connection_.peer.woken, 0);
  decider_.permits().Answer();
  EXPECT_EQ(connection_.peer.woken, 1);
  EXPECT_TRUE(Has(TakeOutput(), "released"));
}

TEST_F(HttpPermitsTest, TheTokenIsAskedForHereToo) {
  options_.token = "secret";
  EXPECT_TRUE(Has(Post("/v1/release", R"({"id":"p"})"), "HTTP/1.1 401 "));
  EXPECT_TRUE(Has(Post("/v1/renew", R"({"id":"p"})"), "HTTP/1.1 401 "));
  EXPECT_TRUE(Has(Get("/v1/holders?key=k"), "HTTP/1.1 401 "));
  EXPECT_TRUE(decider_.permits().asked.empty());
}

}  // namespace
}  // namespace penstock::api
