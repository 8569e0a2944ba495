// Who holds, over HTTP.
#include "api/testing/http_on_fakes.h"

namespace penstock::api {
namespace {

using HttpHoldersTest = HttpOnFakes;
using core::PermitFate;

constexpr char kTwo[] =
    R"("in_use":3,"available":2,"waiting":4,"holders":[)"
    R"({"id":"id-a","holder":"a","weight":1,"fence":17,"expires_in_ms":1999},)"
    R"({"id":"id-b","holder":"b","weight":2,"fence":18,"expires_in_ms":1999}],"more":false})";

TEST_F(HttpHoldersTest, ALimitsHoldersAreListed) {
  const std::string out = Get("/v1/limits/api/in-flight/holders?user=4%202");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_TRUE(Has(out, std::string(R"({"name":"in-flight","permits":5,)") + kTwo)) << out;
  ASSERT_EQ(decider_.holders().asked.size(), 1u);
  const FakeHolderDesk::Asked& asked = decider_.holders().asked[0];
  EXPECT_EQ(asked.domain, "api");
  EXPECT_EQ(asked.limit, "in-flight");
  EXPECT_EQ(asked.holder, "");
  const std::vector<std::pair<std::string, std::string>> attributes = {{"user", "4 2"}};
  EXPECT_EQ(asked.attributes, attributes);
}

TEST_F(HttpHoldersTest, AnAdHocSemaphoreHasNoNumberOfItsOwn) {
  decider_.holders().holders.permits = 0;
  decider_.holders().holders.more = true;
  const std::string out = Get("/v1/holders?key=sema:api&holder=a");
  EXPECT_TRUE(Has(out, R"({"key":"sema:api","permits":null,"in_use":3,"available":null,"waiting":4,)"))
      << out;
  EXPECT_TRUE(Has(out, R"("more":true})")) << out;
  ASSERT_EQ(decider_.holders().asked.size(), 1u);
  EXPECT_TRUE(decider_.holders().asked[0].ad_hoc);
  EXPECT_EQ(decider_.holders().asked[0].key, "sema:api");
  EXPECT_EQ(decider_.holders().asked[0].holder, "a");
}

TEST_F(HttpHoldersTest, MoreHeldThanPermitsIsNoneAvailable) {
  decider_.holders().holders.permits = 2;
  EXPECT_TRUE(Has(Get("/v1/limits/a/l/holders"), R"("permits":2,"in_use":3,"available":0)"));
}

TEST_F(HttpHoldersTest, DeleteReleasesWhatThatHolderHasAndSaysHowMany) {
  decider_.permits().answer = [](const FakePermitDesk::Asked& asked) {
    return FakePermitDesk::Fate(asked.id == "id-b" ? PermitFate::kExpired : PermitFate::kReleased);
  };
  const std::string out = Get("/v1/limits/api/in-flight/holders?user=42&holder=a", "", "DELETE");
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_TRUE(
      Has(out, R"({"name":"in-flight","more":false,"released":1,"expired":1,"unknown":0,"unavailable":0})"))
      << out;
  EXPECT_EQ(decider_.holders().asked[0].holder, "a");
  ASSERT_EQ(decider_.permits().asked.size(), 2u);
  EXPECT_EQ(decider_.permits().asked[1].id, "id-b");
}

TEST_F(HttpHoldersTest, DeleteWorksWithAnEngineThatAnswersLater) {
  decider_.holders().hold = decider_.permits().hold = true;
  EXPECT_EQ(Get("/v1/holders?key=k&holder=a", "", "DELETE"), "");
  decider_.holders().Answer();
  EXPECT_EQ(decider_.permits().flushes, 1);
  EXPECT_EQ(TakeOutput(), "");
  decider_.permits().answer = [](const auto&) { return FakePermitDesk::Fate(PermitFate::kUnavailable); };
  decider_.permits().Answer();
  const std::string out = TakeOutput();
  EXPECT_TRUE(Has(out, "HTTP/1.1 503 ")) << out;
  EXPECT_TRUE(Has(out, R"("released":0,"expired":0,"unknown":0,"unavailable":2})")) << out;
  EXPECT_EQ(connection_.peer.woken, 1);
}

TEST_F(HttpHoldersTest, DeleteOfNobodyReleasesNothing) {
  decider_.holders().holders.entries.clear();
  const std::string out = Get("/v1/holders?key=k&holder=gone", "", "DELETE");
  EXPECT_TRUE(Has(out, R"({"key":"k","more":false,"released":0,)")) << out;
  EXPECT_TRUE(decider_.permits().asked.empty());
}

TEST_F(HttpHoldersTest, WhatIsMissingOrWrongIsNamed) {
  EXPECT_TRUE(Has(Get("/v1/limits/api/in-flight/holders?user=42", "", "DELETE"), "holder: is missing"));
  EXPECT_TRUE(Has(Get("/v1/holders?key=k", "", "DELETE"), "holder: is missing"));
  EXPECT_TRUE(Has(Get("/v1/holders"), "key: is missing"));
  EXPECT_TRUE(Has(Get("/v1/holders?key=k&user=42"), "unknown parameter \\\"user\\\""));
  EXPECT_TRUE(
      Has(Get("/v1/holders?key=k&holder=" + std::string(129, 'x')), "holder: must be 1 to 128 bytes"));
  EXPECT_TRUE(Has(Get("/v1/holders?key=k", "", "PUT"), "Allow: GET, HEAD, DELETE\r\n"));
  EXPECT_TRUE(Has(Get("/v1/limits/a/l/holders", "", "POST"), "Allow: GET, HEAD, DELETE\r\n"));
  EXPECT_TRUE(Has(Get("/v1/limits/a/l/holder"), "HTTP/1.1 404 "));
  EXPECT_TRUE(decider_.holders().asked.empty());
}

TEST_F(HttpHoldersTest, ErrorsAndAnEngineThatIsAwayAreProblems) {
  decider_.holders().error = Error{ErrorKind::kInvalid, "the limit counts no permits"};
  EXPECT_TRUE(Has(Get("/v1/limits/a/l/holders"), "HTTP/1.1 400 "));
  decider_.holders().error = Error{ErrorKind::kNotFound, "no such limit"};
  EXPECT_TRUE(Has(Get("/v1/limits/a/l/holders?holder=x", "", "DELETE"), "HTTP/1.1 404 "));
  decider_.holders().error.reset();
  decider_.holders().holders.unavailable = Reason::kTimeout;
  const std::string out = Get("/v1/limits/a/l/holders");
  EXPECT_TRUE(Has(out, "HTTP/1.1 503 ")) << out;
  EXPECT_TRUE(Has(out, "the engine could not be asked: timeout")) << out;
}

// In one read: what was acquired before is listed.
TEST_F(HttpHoldersTest, AListShowsWhatWasDoneBeforeItInTheSameRead) {
  bool listed = false;
  decider_.answer = [&](const auto&) {
    listed = !decider_.holders().asked.empty();
    return FakeDecider::Granted();
  };
  Send(PostText("/v1/check", R"({"domain":"a"})") + "GET /v1/holders?key=k HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_FALSE(listed);
  EXPECT_EQ(decider_.holders().asked.size(), 1u);
}

}  // namespace
}  // namespace penstock::api
