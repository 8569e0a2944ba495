// Permits on a real server, where what stands there is not theirs, memory is short, or the call is late; and how long a
// bucket lives. That their decisions are core's is for the conformance suite.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/binding.h"
#include "engine/redis/script_call.h"
#include "redis/redis_server.h"

namespace penstock::engine::redis {
namespace {

using Answer = ScriptCall::Answer;

constexpr std::string_view kKey = "pen:{0000}p:00000000000000000000000000000001";
constexpr std::string_view kReadable = "d/l:0:k";

class PermitScriptsTest : public testing::Test {
 protected:
  PermitScriptsTest() {
    for (const Script& script : Scripts()) node_.Must("SCRIPT", "LOAD", script.text);
    limit_.domain = "d";
    limit_.name = "l";
    limit_.params =
        *core::CompileRate({.algorithm = core::Algorithm::kPermits, .count = 10, .period = Seconds(10)});
    limit_.version = 5;
    limit_.binding = std::make_unique<RedisBinding>(limit_, "pen:");
  }

  Answer Acquire(bool by_group, int64_t weight = 1, Micros queue_for = {},
                 EngineTime not_after = {core::kMaxExact}) {
    ask_ = {.id = {1, ++drawn_}, .lease = lease_, .queue_for = queue_for};
    batch_.Clear();
    call_.Clear();
    Group& group = batch_.AddGroup();
    group.options.permit = &ask_;
    core::Operation* const operation = &batch_.AddOperation(limit_, std::span(&kKey, 1));
    operation->cost = weight;
    EXPECT_EQ(call_.Add({.batch = &batch_,
                         .group = &group,
                         .operations = {&operation, 1},
                         .keys = {&kKey, 1},
                         .id_key = {},
                         .by_group = by_group,
                         .readable = {&kReadable, 1},
                         .session = 7}),
              ScriptCall::Added::kYes);
    call_.SetNotAfter(not_after);
    node_.Send(call_.command());
    EXPECT_TRUE(call_.Read(node_.ReceiveNodes(), undo_));
    return call_.sent()[0].answer;
  }
  const core::Verdict& verdict() { return batch_.operations()[0].verdict; }
  static std::string Hash(const Hash128& hash) {
    std::string out;
    for (const uint64_t half : {hash.high, hash.low}) {
      for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(half >> shift);
    }
    return out;
  }
  // The member that has a bucket's numbers, of which nobody holds any.
  static std::string Numbers(double version, double lease) {
    std::string out("#\1", 2);
    for (const double number : {version, lease, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0})
      out.append(reinterpret_cast<const char*>(&number), sizeof number);
    return out;
  }
  // Of the last that was granted.
  char Call(char verb, int64_t lease = 0) {
    std::string call("\1\0", 2);
    call += verb;
    call += Hash(ask_.id);
    call += std::string("\1\0\0\0", 4);
    char number[2 * sizeof(double)];
    PutDouble(number, batch_.operations()[0].charge.window.us);
    PutDouble(number + sizeof(double), lease);
    call.append(number, sizeof number);
    char never[sizeof(double)];
    PutDouble(never, core::kMaxExact);
    const std::string sha(Scripts()[static_cast<size_t>(ScriptKind::kPermitCalls)].sha1);
    const std::string reply =
        node_.Must("EVALSHA", sha, 1, kKey, std::string(never, sizeof never), "", call).text;
    return reply.size() > sizeof(double) ? reply[sizeof(double)] : '?';
  }

  fixtures::RedisServer server_;
  fixtures::RedisClient client_ = server_.Connect();
  fixtures::RedisClient node_ = server_.ConnectAsNode();
  core::Limit limit_;
  core::PermitAsk ask_;
  Micros lease_;
  uint64_t drawn_ = 0;
  Batch batch_;
  ScriptCall call_;
  std::vector<Undo> undo_;
};

TEST_F(PermitScriptsTest, WhatIsNotOursIsLeftAsItIs) {
  const auto foreign = [&](auto&&... command) {
    client_.Must("FLUSHALL");
    client_.Must(command...);
    const std::string before = client_.Must("DUMP", kKey).text;
    EXPECT_EQ(Acquire(false), Answer::kForeign);
    EXPECT_EQ(Acquire(true), Answer::kForeign);
    for (const char verb : {'\0', '\1', '\2', '\3'}) EXPECT_EQ(Call(verb), 'X');
    EXPECT_EQ(client_.Must("DUMP", kKey).text, before);
  };
  foreign("SET", kKey, "hello");
  foreign("HSET", kKey, "a", 1);
  foreign("ZADD", kKey, 1, "somebody");
  foreign("ZADD", kKey, "-inf", "somebody");
  foreign("ZADD", kKey, "-inf", Numbers(5, 1).substr(0, 73));
  foreign("ZADD", kKey, "-inf", Numbers(5, 0));
  foreign("ZADD", kKey, "-inf", Numbers(-1, 1));
  foreign("ZADD", kKey, "-inf", Numbers(0.5, 1.5));
  foreign("ZADD", kKey, "-inf", Numbers(std::numeric_limits<double>::quiet_NaN(), 1));
  foreign("ZADD", kKey, "-inf", Numbers(std::numeric_limits<double>::infinity(), 1));
  foreign("ZADD", kKey, "-inf", Numbers(5, 1), "-inf", Numbers(6, 1));
  client_.Must("FLUSHALL");
  client_.Must("ZADD", kKey, "-inf", "#\2 whatever a later layout has");
  EXPECT_EQ(Acquire(false), Answer::kNewer);
  EXPECT_EQ(Acquire(true), Answer::kNewer);
}

TEST_F(PermitScriptsTest, AStrangersMemberAmongTheHoldersWeighsNothing) {
  ASSERT_EQ(Acquire(false, 4), Answer::kDecided);
  client_.Must("ZADD", kKey, 5, "short", 1'000, std::string(28, 'x'), 4'000'000'000'000'000, "late");
  for (const bool by_group : {false, true}) {
    EXPECT_EQ(Acquire(by_group), Answer::kDecided);
    EXPECT_EQ(verdict().outcome, Outcome::kAllowed);
    EXPECT_EQ(Acquire(by_group, 10), Answer::kDecided);
    EXPECT_EQ(verdict().outcome, Outcome::kDenied);
  }
}

TEST_F(PermitScriptsTest, PastNotAfterNothingIsDone) {
  for (const bool by_group : {false, true}) {
    EXPECT_EQ(Acquire(by_group, 1, {}, {1}), Answer::kLate);
    EXPECT_EQ(client_.Must("EXISTS", kKey).integer, 0);
  }
}

TEST_F(PermitScriptsTest, WithoutMemoryNothingIsGrantedButPermitsAreRenewedAndGivenBack) {
  ASSERT_EQ(Acquire(false), Answer::kDecided);
  const core::PermitAsk held = ask_;
  const core::Charge charge = batch_.operations()[0].charge;
  client_.Must("CONFIG", "SET", "maxmemory", 1);
  EXPECT_EQ(Acquire(false), Answer::kFull);
  EXPECT_EQ(Acquire(true), Answer::kFull);
  ask_ = held;
  batch_.operations()[0].charge = charge;
  EXPECT_EQ(Call(1), 'n');
  EXPECT_EQ(Call(0), 'r');
  EXPECT_EQ(Call(0), 'u');
  client_.Must("CONFIG", "SET", "maxmemory", 0);
  EXPECT_EQ(Acquire(false, 10), Answer::kDecided);
  EXPECT_EQ(verdict().outcome, Outcome::kAllowed) << "no permit was lost on the way";
}

TEST_F(PermitScriptsTest, WithoutMemoryAHolderIsRenewedWhenTheNearestExpiryThatWasKnownIsPast) {
  lease_ = Millis(50);
  ASSERT_EQ(Acquire(false), Answer::kDecided);
  EXPECT_EQ(Call(0), 'r');  // its expiry is known on
  lease_ = {};
  ASSERT_EQ(Acquire(false), Answer::kDecided);
  const EngineTime past = batch_.operations()[0].charge.at + Millis(60);
  fixtures::WaitFor("the expiry", [&] { return SystemClock().Now() > past; });
  client_.Must("CONFIG", "SET", "maxmemory", 1);
  EXPECT_EQ(Call(1), 'n');
  EXPECT_EQ(Call(0), 'r');
}

// C72: and a bucket without holders keeps its time to live.
TEST_F(PermitScriptsTest, ABucketLivesUntilItsLastHolderIsForgotten) {
  for (const bool by_group : {false, true}) {
    ASSERT_EQ(Acquire(by_group), Answer::kDecided);
    EXPECT_GE(client_.Must("PTTL", kKey).integer, 20'000 - 1'000);
    EXPECT_LE(client_.Must("PTTL", kKey).integer, 40'000);
    EXPECT_EQ(Call(0), 'r');
    EXPECT_GT(client_.Must("PTTL", kKey).integer, 0);
  }
  EXPECT_EQ(Acquire(true, 10), Answer::kDecided);
  EXPECT_EQ(Acquire(true, 1, Seconds(60)), Answer::kDecided);
  EXPECT_TRUE(verdict().queued);
  EXPECT_GE(client_.Must("PTTL", kKey).integer, 59'000) << "somebody waits so long";
}

TEST_F(PermitScriptsTest, ABucketHasItsReadableNameInside) {
  ASSERT_EQ(Acquire(false), Answer::kDecided);
  const std::string first = client_.Must("ZRANGE", kKey, 0, 0)[0].text;
  EXPECT_TRUE(first.starts_with("#") && first.ends_with(kReadable)) << first;
  EXPECT_EQ(client_.Must("OBJECT", "ENCODING", kKey).text, "skiplist");
}

// An undo names the permit; a newer version of the bucket is no hindrance.
TEST_F(PermitScriptsTest, AChargeThatNobodyWaitsForIsGivenBackByItsNumber) {
  for (const bool by_group : {false, true}) {
    ASSERT_EQ(Acquire(by_group, 10), Answer::kDecided);
    undo_.clear();
    call_.TakeBack(call_.sent()[0], undo_);
    ASSERT_EQ(undo_.size(), 1u);
    EXPECT_EQ(undo_[0].permit, ask_.id);
    std::string numbers = client_.Must("ZRANGE", kKey, 0, 0)[0].text;
    client_.Must("ZREM", kKey, numbers);
    PutDouble(&numbers[2], 9);  // the version
    client_.Must("ZADD", kKey, "-inf", numbers);
    const std::vector<Undo> undo = undo_;
    call_.Clear();
    ASSERT_EQ(call_.AddUndo(undo, 1), ScriptCall::Added::kYes);
    node_.Send(call_.command());
    ASSERT_TRUE(call_.Read(node_.ReceiveNodes(), undo_));
    EXPECT_EQ(call_.sent()[0].answer, Answer::kDecided);
    EXPECT_EQ(call_.sent()[0].dropped, 0u);
    numbers = client_.Must("ZRANGE", kKey, 0, 0)[0].text;
    EXPECT_EQ(GetDouble(&numbers[2]), 9);
    EXPECT_EQ(GetDouble(&numbers[26]), 0) << "nobody holds";
    client_.Must("DEL", kKey);
  }
}

}  // namespace
}  // namespace penstock::engine::redis
