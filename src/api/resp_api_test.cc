#include "api/resp_api.h"

#include <gtest/gtest.h>

#include "api/testing/resp_on_fakes.h"

namespace penstock::api {
namespace {

using RespApiTest = RespOnFakes;

TEST_F(RespApiTest, ThrottleRepliesAsRedisCell) {
  EXPECT_EQ(Send("CL.THROTTLE user:1 19 30 60\r\n"), "*5\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:1\r\n");
  ASSERT_EQ(decider_.asked().size(), 1u);
  const core::RateSpec& spec = *decider_.asked()[0].ad_hoc;
  EXPECT_EQ(spec.burst, 20);
  EXPECT_EQ(spec.count, 30);
  EXPECT_EQ(spec.period, Seconds(60));
  EXPECT_EQ(decider_.asked()[0].cost, 1);
}

TEST_F(RespApiTest, ThrottleTellsTheWaitAndMinusOneForNever) {
  decider_.answer = [](const auto&) { return FakeDecider::Denied(); };
  EXPECT_EQ(Send("CL.THROTTLE user:1 19 30 60\r\n"), "*5\r\n:1\r\n:20\r\n:0\r\n:2\r\n:1\r\n");
  decider_.answer = [](const auto&) { return FakeDecider::Never(); };
  EXPECT_EQ(Send("CL.THROTTLE user:1 19 30 60 99\r\n"), "*5\r\n:1\r\n:20\r\n:0\r\n:-1\r\n:1\r\n");
}

TEST_F(RespApiTest, ThrottleSaysUnavailableAsAnError) {
  decider_.answer = [](const auto&) { return FakeDecider::Unavailable(); };
  EXPECT_EQ(Send("CL.THROTTLE user:1 19 30 60\r\n"), "-UNAVAILABLE the engine could not be asked: full\r\n");
}

TEST_F(RespApiTest, ThrottleRefusesWhatIsNoNumberOrOutOfRange) {
  EXPECT_EQ(Send("CL.THROTTLE k x 30 60\r\n"), "-ERR max_burst must be a whole number\r\n");
  for (const char* command :
       {"CL.THROTTLE k -1 30 60\r\n", "CL.THROTTLE k 15 0 60\r\n", "CL.THROTTLE k 15 30 0\r\n",
        "CL.THROTTLE k 15 30 60 -1\r\n", "CL.THROTTLE k 15 30 60 9223372036854775808\r\n",
        "CL.THROTTLE k 9223372036854775807 30 60\r\n", "CL.THROTTLE k 15 30\r\n"}) {
    EXPECT_EQ(Send(command).substr(0, 5), "-ERR ") << command;
  }
  EXPECT_TRUE(decider_.asked().empty());
  EXPECT_EQ(Send("CL.THROTTLE k 0 30 60 0\r\n").substr(0, 3), "*5\r");
}

TEST_F(RespApiTest, CheckReadsAttributesAndOptions) {
  Send("PEN.CHECK api 2 user 42 path /x COSTS 2 requests 1 tokens 500 WAIT 100 PARTIAL REQUESTID r-1\r\n");
  ASSERT_EQ(decider_.asked().size(), 1u);
  const FakeDecider::Asked& asked = decider_.asked()[0];
  EXPECT_EQ(asked.domain, "api");
  EXPECT_EQ(asked.attributes.size(), 2u);
  EXPECT_EQ(asked.costs[1].second, 500);
  EXPECT_EQ(asked.max_wait_ms, 100);
  EXPECT_TRUE(asked.partial);
  EXPECT_EQ(asked.request_id, "r-1");
}

TEST_F(RespApiTest, CheckRepliesWithFourteenFieldsInBothProtocols) {
  EXPECT_EQ(Send("PEN.CHECK api 0\r\n"),
            "*14\r\n:1\r\n$7\r\nallowed\r\n:20\r\n:19\r\n:0\r\n:600\r\n:0\r\n:0\r\n$-1\r\n$-1\r\n$-1\r\n$-"
            "1\r\n:0\r\n:1\r\n");
  decider_.answer = [](const auto&) {
    Decision d = FakeDecider::Never();
    d.taken = {{"tokens", 7}};
    return d;
  };
  Send("HELLO 3\r\n");
  EXPECT_EQ(Send("PEN.CHECK api 0\r\n"),
            "*14\r\n:0\r\n$5\r\nnever\r\n:20\r\n:0\r\n_\r\n:600\r\n:0\r\n:0\r\n_\r\n_\r\n_\r\n*2\r\n$"
            "6\r\ntokens\r\n:7\r\n"
            ":0\r\n:1\r\n");
}

TEST_F(RespApiTest, CheckRefusesBadSyntaxWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"PEN.CHECK api x\r\n", "-ERR npairs must be a whole number\r\n"},
      {"PEN.CHECK api 2 user 42\r\n", "-ERR fewer attributes than npairs announces\r\n"},
      {"PEN.CHECK api 0 COTS 1\r\n", "-ERR syntax error at 'COTS'\r\n"},
      {"PEN.CHECK api 0 COST\r\n", "-ERR COST needs a number\r\n"},
      {"PEN.CHECK api 0 COST 1 COST 2\r\n", "-ERR 'COST' stands twice\r\n"},
      {"PEN.CHECK api 0 COST 2147483648\r\n", "-ERR COST must be from -2147483647 to 2147483647\r\n"},
      {"PEN.CHECK api 0 COSTS 2 a 1\r\n", "-ERR COSTS: fewer units and costs than announced\r\n"},
      {"PEN.CHECK api 0 COST 1 COSTS 1 a 1\r\n", "-ERR COST and COSTS exclude each other\r\n"},
  };
  for (const auto& [command, expected] : cases) EXPECT_EQ(Send(command), expected) << command;
  EXPECT_TRUE(decider_.asked().empty());
}

TEST_F(RespApiTest, ErrorsOfTheServiceHaveTheirCode) {
  decider_.answer = [](const auto&) -> Result<Decision> {
    return Fail(ErrorKind::kNotFound, "unknown domain");
  };
  EXPECT_EQ(Send("PEN.CHECK x 0\r\n"), "-NOTFOUND unknown domain\r\n");
  decider_.answer = [](const auto&) -> Result<Decision> { return Fail(ErrorKind::kConflict, "id is taken"); };
  EXPECT_EQ(Send("PEN.CHECK x 0\r\n"), "-CONFLICT id is taken\r\n");
}

TEST_F(RespApiTest, LateDecisionsKeepTheOrderOfTheCommands) {
  decider_.hold = true;
  EXPECT_EQ(Send("CL.THROTTLE a 19 30 60\r\nPING\r\n"), "");
  decider_.Release();
  EXPECT_EQ(peer_.woken, 1);
  EXPECT_EQ(TakeOutput(), "*5\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:1\r\n+PONG\r\n");
}

}  // namespace
}  // namespace penstock::api
