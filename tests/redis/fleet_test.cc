// The heartbeat's script on a real server, called by the user that a node is.
#include <gtest/gtest.h>

#include <string>

#include "engine/redis/script.h"
#include "redis/fixture_error.h"
#include "redis/redis_server.h"

namespace penstock::fixtures {
namespace {

using engine::redis::ScriptKind;
using engine::redis::Scripts;

class FleetScript : public ::testing::Test {
 protected:
  // "nodes index"
  std::string Beat(const std::string& id, const std::string& clock = "") {
    std::string text = Scripts()[static_cast<size_t>(ScriptKind::kFleet)].text;
    if (!clock.empty()) {  // seconds
      text =
          "local real = redis.call\nlocal redis = {call = function(name, ...)\nif name == 'TIME' then return "
          "{'" +
          clock + "', '0'} end\nreturn real(name, ...) end}\n" + text;
    }
    const ReplyValue reply = Run(text, id);
    if (reply.is_error()) throw FixtureError("answered: " + reply.text);
    return reply[0].Text() + " " + reply[1].Text();
  }
  ReplyValue Run(const std::string& text, const std::string& id) {
    return node_.Call("EVALSHA", node_.Must("SCRIPT", "LOAD", text).text, 1, "pen:{fleet}", id);
  }
  static std::string Id(char of) { return std::string(16, of); }

  RedisServer server_;
  RedisClient client_ = server_.Connect();
  RedisClient node_ = server_.ConnectAsNode();
};

TEST_F(FleetScript, EachNodeHasAnotherPlaceByItsId) {
  EXPECT_EQ(Beat(Id('m')), "1 0");
  EXPECT_EQ(Beat(Id('z')), "2 1");
  EXPECT_EQ(Beat(Id('a')), "3 0");
  EXPECT_EQ(Beat(Id('m')), "3 1");
  EXPECT_EQ(Beat(Id('z')), "3 2");
  EXPECT_EQ(Beat(Id('z')), "3 2");
  EXPECT_EQ(Beat(std::string(16, '\0')), "4 0");
  const int64_t ttl_ms = client_.Must("PTTL", "pen:{fleet}").integer;
  EXPECT_GT(ttl_ms, 3'000);
  EXPECT_LE(ttl_ms, 10'000);
}

TEST_F(FleetScript, ANodeThatDoesNotBeatIsGoneAfterThreeSeconds) {
  EXPECT_EQ(Beat(Id('a'), "1000"), "1 0");
  EXPECT_EQ(Beat(Id('b'), "1001"), "2 1");
  EXPECT_EQ(Beat(Id('c'), "1002"), "3 2");
  EXPECT_EQ(Beat(Id('c'), "1003"), "2 1");
  EXPECT_EQ(Beat(Id('b'), "1009"), "1 0");
}

TEST_F(FleetScript, AClockThatSteppedBackLeavesNobodyForEver) {
  EXPECT_EQ(Beat(Id('a'), "5000"), "1 0");
  EXPECT_EQ(Beat(Id('b'), "1000"), "1 0");
  EXPECT_EQ(Beat(Id('a'), "1000"), "2 0");
}

TEST_F(FleetScript, WhatIsNotOursIsAnErrorOrSkipped) {
  client_.Must("SET", "pen:{fleet}", "seven");
  EXPECT_EQ(Beat(Id('a')), "1 0");
  client_.Must("DEL", "pen:{fleet}");
  client_.Must("LPUSH", "pen:{fleet}", "x");
  const ReplyValue reply = Run(Scripts()[static_cast<size_t>(ScriptKind::kFleet)].text, Id('a'));
  EXPECT_TRUE(reply.text.find("WRONGTYPE") != std::string::npos) << reply.Text();
}

}  // namespace
}  // namespace penstock::fixtures
