// Permits over RESP.
#include "api/testing/resp_on_fakes.h"

namespace penstock::api {
namespace {

using RespPermitsTest = RespOnFakes;
using core::PermitFate;

TEST_F(RespPermitsTest, AcquireAnswersIdExpiryAndFence) {
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  EXPECT_EQ(Send("PEN.ACQUIRE sema:api 5 30000 WEIGHT 2 WAIT 100 HOLDER w-1 REQUESTID r-1\r\n"),
            "*4\r\n:1\r\n$8\r\npermit-1\r\n:29999\r\n:17\r\n");
  ASSERT_EQ(decider_.asked().size(), 1u);
  const FakeDecider::Asked& asked = decider_.asked()[0];
  EXPECT_EQ(asked.ad_hoc_key, "sema:api");
  EXPECT_EQ(asked.ad_hoc->algorithm, core::Algorithm::kPermits);
  EXPECT_EQ(asked.ad_hoc->count, 5);
  EXPECT_EQ(asked.ad_hoc->period, Seconds(30));
  EXPECT_EQ(asked.weight, 2);
  EXPECT_EQ(asked.max_wait_ms, 100);
  EXPECT_EQ(asked.holder, "w-1");
  EXPECT_EQ(asked.request_id, "r-1");
}

TEST_F(RespPermitsTest, ARefusalTellsTheOutcomeTheWaitAndWhatIsInUse) {
  decider_.answer = [](const auto&) { return FakeDecider::Denied(); };
  EXPECT_EQ(Send("PEN.ACQUIRE k 20 30000\r\n"), "*4\r\n:0\r\n$6\r\ndenied\r\n:1001\r\n:20\r\n");
  decider_.answer = [](const auto&) { return FakeDecider::Never(); };
  EXPECT_EQ(Send("PEN.ACQUIRE k 20 30000\r\n"), "*4\r\n:0\r\n$5\r\nnever\r\n$-1\r\n:20\r\n");
  decider_.answer = [](const auto&) { return FakeDecider::Unavailable(); };
  EXPECT_EQ(Send("PEN.ACQUIRE k 20 30000\r\n"), "*4\r\n:0\r\n$11\r\nunavailable\r\n$-1\r\n$-1\r\n");
}

TEST_F(RespPermitsTest, AllowedWithoutAnEngineIsAllowedWithoutAPermit) {
  decider_.answer = [](const auto&) {
    Decision d = FakeDecider::Unavailable();
    d.allowed = true;
    return d;
  };
  EXPECT_EQ(Send("PEN.ACQUIRE k 20 30000\r\n"), "*4\r\n:1\r\n$-1\r\n$-1\r\n$-1\r\n");
}

// C71.
TEST_F(RespPermitsTest, WhatIsOutOfBoundsIsRefusedWithTheBounds) {
  const std::pair<const char*, const char*> cases[] = {
      {"PEN.ACQUIRE k 0 30000\r\n", "-ERR permits must be from 1 to 2147483647\r\n"},
      {"PEN.ACQUIRE k x 30000\r\n", "-ERR permits must be a whole number\r\n"},
      {"PEN.ACQUIRE k 5 1\r\n", "-ERR lease_ms must be from 100 to 86400000\r\n"},
      {"PEN.ACQUIRE k 5 31536000000\r\n", "-ERR lease_ms must be from 100 to 86400000\r\n"},
      {"PEN.ACQUIRE k 5 30000 WEIGHT 0\r\n", "-ERR WEIGHT must be from 1 to 2147483647\r\n"},
      {"PEN.ACQUIRE k 5 30000 WAIT 60001\r\n", "-ERR WAIT must be from 0 to 60000\r\n"},
      {"PEN.ACQUIRE k 5 30000 COST 1\r\n", "-ERR syntax error at 'COST'\r\n"},
      {"PEN.ACQUIRE k 5 30000 WAIT 1 WAIT 2\r\n", "-ERR 'WAIT' stands twice\r\n"},
      {"PEN.CHECK api 0 LEASE 1\r\n", "-ERR LEASE must be from 100 to 86400000\r\n"},
      {"PEN.RENEW p 1\r\n", "-ERR lease_ms must be 0, for the limit's own, or from 100 to 86400000\r\n"},
      {"PEN.RENEW p soon\r\n", "-ERR lease_ms must be a whole number\r\n"},
  };
  for (const auto& [command, expected] : cases) EXPECT_EQ(Send(command), expected) << command;
  EXPECT_EQ(Send("PEN.ACQUIRE k 5\r\n").substr(0, 5), "-ERR ");
  EXPECT_EQ(Send("PEN.RELEASE\r\n").substr(0, 5), "-ERR ");
  EXPECT_TRUE(decider_.asked().empty());
  EXPECT_TRUE(decider_.permits().asked.empty());
}

TEST_F(RespPermitsTest, ReleaseAnswersForEachIdInItsPlace) {
  decider_.permits().answer = [](const FakePermitDesk::Asked& asked) {
    return FakePermitDesk::Fate(asked.id == "a"   ? PermitFate::kReleased
                                : asked.id == "b" ? PermitFate::kExpired
                                                  : PermitFate::kUnavailable);
  };
  EXPECT_EQ(Send("PEN.RELEASE a b c\r\n"), "*3\r\n$8\r\nreleased\r\n$7\r\nexpired\r\n$11\r\nunavailable\r\n");
}

TEST_F(RespPermitsTest, RenewAnswersWhatIsLeftOrWhatBecameOfIt) {
  EXPECT_EQ(Send("PEN.RENEW p 30000\r\n"), "*2\r\n:1\r\n:29999\r\n");
  EXPECT_EQ(decider_.permits().asked[0].lease_ms, 30'000);
  decider_.permits().answer = [](const auto&) { return FakePermitDesk::Fate(PermitFate::kExpired); };
  EXPECT_EQ(Send("PEN.RENEW p 0\r\n"), "*2\r\n:0\r\n$7\r\nexpired\r\n");
  EXPECT_EQ(decider_.permits().asked[1].lease_ms, 0);
}

TEST_F(RespPermitsTest, HoldersAreListed) {
  EXPECT_EQ(Send("PEN.HOLDERS sema:api\r\n"),
            "*4\r\n:3\r\n:4\r\n:0\r\n*2\r\n"
            "*5\r\n$4\r\nid-a\r\n$1\r\na\r\n:1\r\n:17\r\n:1999\r\n"
            "*5\r\n$4\r\nid-b\r\n$1\r\nb\r\n:2\r\n:18\r\n:1999\r\n");
  EXPECT_TRUE(decider_.holders().asked[0].ad_hoc);
  EXPECT_EQ(decider_.holders().asked[0].key, "sema:api");
  decider_.holders().holders.unavailable = Reason::kEngineDown;
  EXPECT_EQ(Send("PEN.HOLDERS k\r\n"), "-UNAVAILABLE the engine could not be asked: engine_down\r\n");
}

TEST_F(RespPermitsTest, CheckTellsAPermitInItsThreeFields) {
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  const std::string one = Send("PEN.CHECK api 0 HOLDER w LEASE 1000\r\n");
  EXPECT_NE(one.find("\r\n$8\r\npermit-1\r\n:29999\r\n:17\r\n$-1\r\n:0\r\n:1\r\n"), std::string::npos) << one;
  EXPECT_EQ(decider_.asked()[0].holder, "w");
  EXPECT_EQ(decider_.asked()[0].lease_ms, 1'000);
  decider_.answer = [](const auto&) {
    Decision d = FakeDecider::Granted();
    d.permit->fence.reset();
    return d;
  };
  const std::string several = Send("PEN.CHECK api 0\r\n");
  EXPECT_NE(several.find("permit-1\r\n:29999\r\n$-1\r\n"), std::string::npos) << several;
}

// A command that waits holds back the replies behind it, but not what they do.
TEST_F(RespPermitsTest, AWaitingCommandDelaysLaterRepliesAndNotTheirExecution) {
  decider_.hold = true;
  EXPECT_EQ(Send("PEN.ACQUIRE k 1 30000 WAIT 60000\r\nPEN.RELEASE a\r\n"), "");
  EXPECT_EQ(decider_.permits().flushes, 1);
  EXPECT_TRUE(api_.Waits(peer_));
  decider_.answer = [](const auto&) { return FakeDecider::Granted(); };
  decider_.Release();
  EXPECT_EQ(TakeOutput(), "*4\r\n:1\r\n$8\r\npermit-1\r\n:29999\r\n:17\r\n*1\r\n$8\r\nreleased\r\n");
  EXPECT_FALSE(api_.Waits(peer_));
}

}  // namespace
}  // namespace penstock::api
