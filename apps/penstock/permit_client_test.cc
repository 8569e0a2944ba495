#include "permit_client.h"

#include <gtest/gtest.h>

namespace penstock::app {
namespace {

using core::PermitFate;

std::string BodyOf(const PermitFlags& flags) {
  const Result<std::string> body = AcquireBody(flags);
  return body ? *body : "! " + body.error().message;
}

TEST(AcquireBody, OfADomain) {
  PermitFlags flags;
  flags.domain = "api";
  flags.attributes = {"user=a\"b", "plan="};
  EXPECT_EQ(BodyOf(flags), R"({"domain":"api","attributes":{"user":"a\"b","plan":""},"cost":1,"weight":1})");
  flags.weight = 3;
  flags.cost = 0;
  flags.wait = "1500ms";
  flags.lease = "10s";
  flags.holder = "me";
  flags.request_id = "r1";
  EXPECT_EQ(
      BodyOf(flags),
      R"({"domain":"api","attributes":{"user":"a\"b","plan":""},"cost":0,"weight":3,"max_wait_ms":1500,)"
      R"("lease_ms":10000,"holder":"me","request_id":"r1"})");
}

TEST(AcquireBody, OfAKey) {
  PermitFlags flags;
  flags.key = "sema:api";
  flags.permits = 5;
  EXPECT_EQ(BodyOf(flags), R"({"key":"sema:api","limit":{"permits":5},"cost":1,"weight":1})");
  flags.lease = "10s";
  EXPECT_EQ(BodyOf(flags), R"({"key":"sema:api","limit":{"permits":5,"lease":"10s"},"cost":1,"weight":1})");
}

TEST(AcquireBody, NamesWhatIsWrong) {
  PermitFlags flags;
  EXPECT_NE(BodyOf(flags).find("DOMAIN"), std::string::npos);
  flags.domain = "api";
  flags.attributes = {"user"};
  EXPECT_NE(BodyOf(flags).find("name=value"), std::string::npos);
  flags.attributes.clear();
  flags.permits = 3;
  EXPECT_NE(BodyOf(flags).find("--permits"), std::string::npos);
  flags.permits = 0;
  flags.wait = "soon";
  EXPECT_NE(BodyOf(flags).find("--wait"), std::string::npos);
  flags.wait = "1000000h";
  EXPECT_NE(BodyOf(flags).find("--wait"), std::string::npos);
  flags.wait.clear();
  flags.key = "k";
  EXPECT_NE(BodyOf(flags).find("DOMAIN"), std::string::npos) << "not both";
  flags.domain.clear();
  EXPECT_NE(BodyOf(flags).find("--permits"), std::string::npos);
}

TEST(ReadPermitAnswer, OfAGrant) {
  const Result<PermitAnswer> answer = ReadPermitAnswer(
      R"({"allowed":true,"outcome":"allowed","limit":5,"remaining":4,"retry_after_ms":0,"degraded":false,)"
      R"("limits":[{"name":"a"}],"permit":{"id":"abc","fence":17,"expires_in_ms":30000,"waited_ms":12}})");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->allowed && answer->any_limit && !answer->degraded);
  EXPECT_EQ(answer->id, "abc");
  EXPECT_EQ(answer->fence, 17);
  EXPECT_EQ(answer->expires_in_ms, 30'000);
  EXPECT_EQ(answer->waited_ms, 12);
}

TEST(ReadPermitAnswer, WithoutAFence) {
  const Result<PermitAnswer> answer = ReadPermitAnswer(
      R"({"allowed":true,"outcome":"allowed","limits":[],"permit":{"id":"abc","expires_in_ms":1,"waited_ms":0}})");
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->fence);
  EXPECT_FALSE(answer->any_limit);
}

TEST(ReadPermitAnswer, OfAProblemIsTheCallersMistake) {
  const Result<PermitAnswer> problem =
      ReadPermitAnswer(R"({"status":404,"detail":"there is no domain 'apx'"})");
  ASSERT_FALSE(problem);
  EXPECT_EQ(problem.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(problem.error().message, "there is no domain 'apx'");
  EXPECT_EQ(ReadPermitAnswer("<html>").error().kind, ErrorKind::kUnavailable);
}

TEST(ReadPermitFate, OfOneAndOfAList) {
  EXPECT_EQ(ReadPermitFate({200, R"({"result":"released"})"})->fate, PermitFate::kReleased);
  EXPECT_EQ(ReadPermitFate({200, R"([{"status":200,"result":"unknown"}])"})->fate, PermitFate::kUnknown);
  EXPECT_EQ(ReadPermitFate({200, R"({"result":"expired"})"})->fate, PermitFate::kExpired);
  EXPECT_EQ(ReadPermitFate({503, R"({"result":"unavailable","reason":"timeout"})"})->fate,
            PermitFate::kUnavailable);
  const Result<PermitFateAnswer> renewed =
      ReadPermitFate({200, R"({"result":"renewed","expires_in_ms":30000})"});
  EXPECT_EQ(renewed->fate, PermitFate::kRenewed);
  EXPECT_EQ(renewed->expires_in_ms, 30'000);
}

TEST(ReadPermitFate, OfWhatIsNoAnswer) {
  EXPECT_EQ(ReadPermitFate({400, R"({"detail":"lease_ms: must be …"})"}).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(ReadPermitFate({502, R"({"detail":"bad gateway"})"}).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(ReadPermitFate({429, R"({})"}).error().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace penstock::app
