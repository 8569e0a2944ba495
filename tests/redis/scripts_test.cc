// The scripts on a real server: what they do where a bucket is not theirs, the clock is past, memory is short or the
// server read-only; and undo. They are called by the user that a node is. That their decisions are core's is for the
// differential test.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/binding.h"
#include "engine/redis/script_call.h"
#include "redis/redis_server.h"

namespace penstock::engine::redis {
namespace {

using core::Algorithm;
using Answer = ScriptCall::Answer;

// Takes TIME from a key of the server, so that a test moves the clock.
constexpr std::string_view kPrelude =
    "local real = redis local clock = real.call('GET', 'pen:clock') "
    "local function moved(call) return function(name, ...) if name == 'TIME' and clock then "
    "return {string.sub(clock, 1, -7), string.sub(clock, -6)} end return call(name, ...) end end "
    "local redis = setmetatable({call = moved(real.call), pcall = moved(real.pcall)}, {__index = real}) ";

class ScriptsTest : public testing::Test {
 protected:
  ScriptsTest() : scripts_(ScriptsWith(kPrelude)), call_(scripts_) {
    for (const Script& script : scripts_) {
      EXPECT_EQ(node_.Must("SCRIPT", "LOAD", script.text).text, script.sha1);
    }
    // From here on a batch's groups and operations stay where they are.
    for (int i = 0; i < 100; ++i) {
      batch_.AddGroup();
      batch_.AddOperation(*bucket_, {});
    }
    batch_.Clear();
  }

  static std::unique_ptr<core::Limit> MakeLimit(Algorithm algorithm, core::Version version = 5) {
    auto limit = std::make_unique<core::Limit>();
    limit->domain = "d";
    limit->name = "l";
    limit->params = *core::CompileRate({.algorithm = algorithm, .count = 10, .period = Seconds(10)});
    limit->version = version;
    limit->binding = std::make_unique<RedisBinding>(*limit, "pen:");
    return limit;
  }

  // Adds a request for one bucket. Its operation is batch_.operations().back().
  void Add(const core::Limit& limit, std::string_view key, int64_t cost, bool by_group = false,
           std::string_view id = {}) {
    Group& group = batch_.AddGroup();
    core::Operation* const operation = &batch_.AddOperation(limit, std::span(&key, 1));
    operation->cost = cost;
    ASSERT_EQ(call_.Add({.batch = &batch_,
                         .group = &group,
                         .operations = {&operation, 1},
                         .keys = {&key, 1},
                         .id_key = id,
                         .by_group = by_group}),
              ScriptCall::Added::kYes);
  }
  bool Send() {
    node_.Send(call_.command());
    undo_.clear();
    return call_.Read(node_.ReceiveNodes(), undo_);
  }
  // One request in a call of its own.
  Answer Ask(const core::Limit& limit, std::string_view key, int64_t cost, bool by_group = false,
             std::string_view id = {}) {
    Begin();
    Add(limit, key, cost, by_group, id);
    EXPECT_TRUE(Send());
    return call_.sent()[0].answer;
  }
  void Begin() {
    call_.Clear();
    batch_.Clear();
  }
  int64_t Remaining(std::string_view key) {
    EXPECT_EQ(Ask(*bucket_, key, 0), Answer::kDecided);
    return batch_.operations()[0].verdict.remaining;
  }
  GroupState TakeBack(const std::vector<Undo>& undo) {
    Begin();
    EXPECT_EQ(call_.AddUndo(undo, 1), ScriptCall::Added::kYes);
    EXPECT_TRUE(Send());
    EXPECT_EQ(call_.sent()[0].answer, Answer::kDecided);
    return call_.sent()[0].state;
  }

  fixtures::RedisServer server_;
  fixtures::RedisClient client_ = server_.Connect();
  fixtures::RedisClient node_ = server_.ConnectAsNode();
  const std::vector<Script> scripts_;
  const std::unique_ptr<core::Limit> bucket_ = MakeLimit(Algorithm::kTokenBucket);
  Batch batch_;
  ScriptCall call_;
  std::vector<Undo> undo_;
};

TEST_F(ScriptsTest, WhatIsNotOursIsAnErrorOfItsGroupAloneAndStays) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    const auto limit = MakeLimit(algorithm);
    client_.Must("FLUSHALL");
    client_.Must("HSET", "pen:hash", "a", 1);
    client_.Must("SET", "pen:text", "hello");
    client_.Must("SET", "pen:short", std::string("\x01") + static_cast<char>(algorithm));
    for (const bool by_group : {false, true}) {
      Begin();
      for (const char* key : {"pen:hash", "pen:text", "pen:fine", "pen:short"}) Add(*limit, key, 1, by_group);
      ASSERT_TRUE(Send());
      EXPECT_EQ(call_.sent()[2].answer, Answer::kDecided);
      EXPECT_EQ(call_.sent()[0].answer, Answer::kForeign);
      EXPECT_EQ(call_.sent()[1].answer, by_group ? Answer::kForeign : Answer::kAskGroup);
      EXPECT_EQ(call_.sent()[3].answer, by_group ? Answer::kForeign : Answer::kAskGroup);
    }
    EXPECT_EQ(Ask(*limit, "pen:hash", 1), Answer::kForeign);  // alone in its call
    EXPECT_EQ(Ask(*limit, "pen:hash", 0), Answer::kForeign);
    EXPECT_EQ(client_.Must("TYPE", "pen:hash").text, "hash");
    EXPECT_EQ(client_.Must("GET", "pen:text").text, "hello");
    EXPECT_EQ(client_.Must("STRLEN", "pen:short").integer, 2);
  }
}

TEST_F(ScriptsTest, ABucketOfANewerLayoutIsLeftAlone) {
  ASSERT_EQ(Ask(*bucket_, "pen:k", 1), Answer::kDecided);
  client_.Must("SETRANGE", "pen:k", 0, "\x02");
  const std::string before = client_.Must("GET", "pen:k").text;
  EXPECT_EQ(Ask(*bucket_, "pen:k", 1), Answer::kAskGroup);
  EXPECT_EQ(Ask(*bucket_, "pen:k", 1, true), Answer::kNewer);
  EXPECT_EQ(batch_.groups()[0].result.state, GroupState::kUnavailable);
  EXPECT_EQ(client_.Must("GET", "pen:k").text, before);
}

TEST_F(ScriptsTest, PastNotAfterNothingIsDoneButARepeatIsAnswered) {
  ASSERT_EQ(Ask(*bucket_, "pen:k", 3, false, "pen:id"), Answer::kDecided);
  const EngineTime past{call_.now() - Seconds(1)};
  Begin();
  Add(*bucket_, "pen:k", 3, false, "pen:id");
  Add(*bucket_, "pen:k", 3, true);
  Add(*bucket_, "pen:k", 1, false, "pen:other");
  call_.SetNotAfter(past);
  ASSERT_TRUE(Send());
  EXPECT_EQ(call_.sent()[0].answer, Answer::kDecided);
  EXPECT_TRUE(batch_.groups()[0].result.replayed);
  EXPECT_EQ(batch_.operations()[0].verdict.taken, 3);
  EXPECT_EQ(call_.sent()[1].answer, Answer::kLate);
  EXPECT_EQ(call_.sent()[2].answer, Answer::kLate);
  EXPECT_EQ(batch_.groups()[1].result.reason, Reason::kTimeout);
  Begin();
  Add(*bucket_, "pen:k", 1);
  Add(*bucket_, "pen:new", 1);
  call_.SetNotAfter(past);
  ASSERT_TRUE(Send());
  EXPECT_EQ(call_.sent()[0].answer, Answer::kLate);
  EXPECT_EQ(call_.sent()[1].answer, Answer::kLate);
  EXPECT_GE(call_.now(), past + Seconds(1));
  EXPECT_EQ(client_.Must("EXISTS", "pen:new", "pen:other").integer, 0);
}

TEST_F(ScriptsTest, WithoutMemoryNothingIsCharged) {
  ASSERT_EQ(Ask(*bucket_, "pen:old", 1), Answer::kDecided);
  const std::string before = client_.Must("GET", "pen:old").text;
  client_.Must("CONFIG", "SET", "maxmemory", 1);
  for (const bool by_group : {false, true}) {
    Begin();
    Add(*bucket_, "pen:old", 1, by_group);
    Add(*bucket_, "pen:new", 1, by_group);
    Add(*bucket_, "pen:new", 11, by_group);  // needs no memory
    Add(*bucket_, "pen:new", 1, by_group);
    ASSERT_TRUE(Send());
    for (const int i : {0, 1, 3}) EXPECT_EQ(call_.sent()[i].answer, Answer::kFull);
    EXPECT_EQ(batch_.groups()[0].result.reason, Reason::kFull);
    EXPECT_EQ(call_.sent()[2].answer, Answer::kDecided);
    EXPECT_EQ(batch_.operations()[2].verdict.outcome, Outcome::kNever);
  }
  EXPECT_EQ(Ask(*bucket_, "pen:new", 1, false, "pen:id"), Answer::kFull);
  client_.Must("CONFIG", "SET", "maxmemory", 0);
  EXPECT_EQ(client_.Must("GET", "pen:old").text, before);
  EXPECT_EQ(client_.Must("EXISTS", "pen:new", "pen:id").integer, 0);
}

TEST_F(ScriptsTest, AReadOnlyServersRefusalIsTheRepliesOwnError) {
  client_.Must("REPLICAOF", "127.0.0.1", server_.port() == 1 ? 2 : 1);
  for (const bool by_group : {false, true}) {
    Begin();
    Add(*bucket_, "pen:k", 1, by_group);
    node_.Send(call_.command());
    const auto nodes = node_.ReceiveNodes();
    ASSERT_EQ(nodes[0].type, resp::ReplyType::kError);
    EXPECT_NE(nodes[0].text.find("READONLY"), std::string_view::npos) << nodes[0].text;
  }
  client_.Must("REPLICAOF", "NO", "ONE");
  EXPECT_EQ(Remaining("pen:k"), 10);
}

TEST_F(ScriptsTest, AKeyLivesUntilItsBucketIsIdleAndAtLeastTwoSeconds) {
  Ask(*bucket_, "pen:short", 1);
  Ask(*bucket_, "pen:long", 10);
  Ask(*MakeLimit(Algorithm::kSlidingLog), "pen:log", 1);
  Ask(*MakeLimit(Algorithm::kSlidingWindow), "pen:window", 1, true);
  const auto life = [&](const char* key) { return client_.Must("PTTL", key).integer; };
  EXPECT_GT(life("pen:short"), 1'000);
  EXPECT_LE(life("pen:short"), 2'000);
  EXPECT_GT(life("pen:long"), 9'000);
  EXPECT_LE(life("pen:long"), 10'000);
  EXPECT_LE(life("pen:log"), 10'000);
  EXPECT_LE(life("pen:window"), 20'000);
  EXPECT_GT(life("pen:window"), 9'000);
}

TEST_F(ScriptsTest, ABucketThatManyAskForInOneCallIsWrittenTwice) {
  client_.Must("SET", "pen:clock", int64_t{1'800'000'000'000'000});
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    const auto limit = MakeLimit(algorithm);
    client_.Must("DEL", "pen:k", "pen:other");
    client_.Must("CONFIG", "RESETSTAT");
    Begin();
    for (int i = 0; i < 20; ++i) Add(*limit, i == 4 ? "pen:other" : "pen:k", 1);
    ASSERT_TRUE(Send());
    for (int i = 0, left = 10; i < 20; ++i) {
      ASSERT_EQ(call_.sent()[i].answer, Answer::kDecided);
      const core::Verdict& verdict = batch_.operations()[i].verdict;
      if (i != 4) left = std::max(0, left - 1);
      EXPECT_EQ(verdict.remaining, i == 4 ? 9 : left);
      EXPECT_EQ(verdict.outcome, i < 11 ? Outcome::kAllowed : Outcome::kDenied);
    }
    EXPECT_NE(client_.Must("INFO", "commandstats").text.find("cmdstat_set:calls=3,"), std::string::npos);
    ASSERT_EQ(Ask(*limit, "pen:k", 0), Answer::kDecided);
    EXPECT_EQ(batch_.operations()[0].verdict.remaining, 0);
    EXPECT_GT(client_.Must("PTTL", "pen:k").integer, 2'000);
  }
}

TEST_F(ScriptsTest, AnUndoGivesBackWhatHasNotDrained) {
  client_.Must("SET", "pen:clock", int64_t{1'800'000'000'000'000});
  Ask(*bucket_, "pen:k", 5);
  std::vector<Undo> five;
  call_.TakeBack(call_.sent()[0], five);
  client_.Must("SET", "pen:clock", int64_t{1'800'000'003'000'000});
  Ask(*bucket_, "pen:k", 4);
  EXPECT_EQ(TakeBack(five), GroupState::kDecided);
  EXPECT_EQ(Remaining("pen:k"), 6);  // 5 and 4 less 3 s, less the 2 of the 5 that were left: 4
}

TEST_F(ScriptsTest, AnUndoUnderAnIdIsDoneOnceAndTheIdGoes) {
  Begin();
  Add(*bucket_, "pen:k", 5, false, "pen:id");
  ScriptCall::Abandon(call_.sent()[0]);
  ASSERT_TRUE(Send());
  ASSERT_EQ(undo_.size(), 1u);
  EXPECT_EQ(undo_[0].id_key, "pen:id");
  const std::vector<Undo> undo = undo_;
  EXPECT_EQ(TakeBack(undo), GroupState::kDecided);
  EXPECT_EQ(client_.Must("EXISTS", "pen:id").integer, 0);
  EXPECT_EQ(Ask(*bucket_, "pen:k", 5, false, "pen:id"), Answer::kDecided);
  EXPECT_EQ(batch_.operations()[0].verdict.remaining, 5);
  EXPECT_EQ(TakeBack(undo), GroupState::kUnknownId);  // the id's charge is another one now
  EXPECT_LE(Remaining("pen:k"), 6);
}

TEST_F(ScriptsTest, AChargeThatARepeatWasToldOfStands) {
  Begin();
  Add(*bucket_, "pen:k", 5, false, "pen:id");
  ScriptCall::Abandon(call_.sent()[0]);
  ASSERT_TRUE(Send());
  std::vector<Undo> undo = undo_;
  ASSERT_EQ(Ask(*bucket_, "pen:k", 5, false, "pen:id"), Answer::kDecided);
  EXPECT_TRUE(batch_.groups()[0].result.replayed);
  EXPECT_EQ(TakeBack(undo), GroupState::kUnknownId);
  EXPECT_LE(Remaining("pen:k"), 6);
  undo[0].unless_replayed = false;  // the request was refused after all
  EXPECT_EQ(TakeBack(undo), GroupState::kDecided);
  EXPECT_EQ(Remaining("pen:k"), 10);
}

TEST_F(ScriptsTest, AnUndoThatMeetsANewerVersionIsDropped) {
  Ask(*bucket_, "pen:k", 5);
  std::vector<Undo> undo;
  call_.TakeBack(call_.sent()[0], undo);
  const auto newer = MakeLimit(Algorithm::kTokenBucket, 6);
  EXPECT_EQ(Ask(*newer, "pen:k", 0), Answer::kDecided);
  EXPECT_EQ(TakeBack(undo), GroupState::kDecided);
  EXPECT_EQ(call_.sent()[0].dropped, 1u);
  Ask(*newer, "pen:k", 0);
  EXPECT_LE(batch_.operations()[0].verdict.remaining, 6);
}

}  // namespace
}  // namespace penstock::engine::redis
