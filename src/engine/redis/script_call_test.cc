// What a call sends and how replies are read, without a Redis. What the scripts do is tested on real ones (tests/redis).
#include "engine/redis/script_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "engine/redis/binding.h"

namespace penstock::engine::redis {
namespace {

using core::Algorithm;

constexpr int64_t kNow = 1'800'000'000'000'000;

std::unique_ptr<core::Limit> MakeLimit(Algorithm algorithm,
                                       core::WindowKind window = core::WindowKind::kEpoch) {
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "d";
  limit->name = "l";
  limit->identity = "d/l";
  limit->params =
      *core::CompileRate({.algorithm = algorithm, .window = window, .count = 10, .period = Seconds(3'600)});
  limit->version = 7;
  limit->binding = std::make_unique<RedisBinding>(*limit, "pen:");
  return limit;
}

std::string Number(int64_t value) {
  std::string out(sizeof(double), 0);
  PutDouble(out.data(), value);
  return out;
}

class ScriptCallTest : public testing::Test {
 protected:
  // A batch keeps its room: from here on groups and operations stay where they are.
  ScriptCallTest() {
    for (size_t i = 0; i < 2 * ScriptCall::kMaxGroups; ++i) {
      batch_.AddGroup();
      batch_.AddOperation(*bucket_, {});
    }
    batch_.Clear();
  }
  ScriptCall::Added Add(const core::Limit& limit, std::string_view key, int64_t cost = 1,
                        std::string_view id = {}, bool by_group = false) {
    Group& group = batch_.AddGroup();
    core::Operation& operation = batch_.AddOperation(limit, std::span(&key, 1));
    operation.cost = cost;
    operation.boundaries = &edges_;
    core::Operation* const pointer = &operation;
    return call_.Add({.batch = &batch_,
                      .group = &group,
                      .operations = {&pointer, 1},
                      .keys = {&key, 1},
                      .id_key = id,
                      .by_group = by_group});
  }
  bool Read(const std::string& reply, resp::ReplyType type = resp::ReplyType::kBulk) {
    resp::ReplyNode node;
    node.type = type;
    node.text = reply;
    return call_.Read({&node, 1}, undo_);
  }
  // A token bucket's value as the scripts store it.
  static std::string Bucket(const core::Limit& limit, int64_t stamp, int64_t debt) {
    return std::string("\x01\x00", 2) + Number(limit.version) + Number(limit.params.drain) +
           Number(limit.params.unit_cost) + Number(stamp) + Number(debt);
  }
  std::vector<std::string> Arguments() {
    resp::ReplyParser parser;
    EXPECT_EQ(parser.Parse(call_.command()).status, resp::ParseStatus::kDone);
    std::vector<std::string> out;
    for (const resp::ReplyNode& node : parser.nodes()) out.emplace_back(node.text);
    out.erase(out.begin());
    return out;
  }

  const core::WindowBoundaries edges_{{kNow - 2}, {kNow - 1}, {kNow + 1}, {kNow + 2}};
  const std::unique_ptr<core::Limit> bucket_ = MakeLimit(Algorithm::kTokenBucket);
  Batch batch_;
  ScriptCall call_;
  std::vector<Undo> undo_;
};

TEST(PackedLimit, ComesBackWithAllThatDecisionsNeed) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    const auto limit = MakeLimit(algorithm);
    core::Limit copy;
    ASSERT_TRUE(PackedLimit(*limit).Unpack(copy));
    EXPECT_EQ(copy.version, limit->version);
    copy.params.count = limit->params.count;
    if (algorithm == Algorithm::kTokenBucket) copy.params.period = limit->params.period;
    EXPECT_EQ(copy.params, limit->params);
  }
  PackedLimit packed(*MakeLimit(Algorithm::kFixedWindow, core::WindowKind::kMonth));
  packed.SetEdges({{1}, {2}, {3}, {4}});
  EXPECT_EQ(packed.edges().previous, EngineTime{1});
  EXPECT_EQ(packed.edges().end_of_next, EngineTime{4});
  packed.bytes[0] = 2;
  core::Limit none;
  EXPECT_FALSE(packed.Unpack(none));
}

TEST(PackedLimit, AForeignBucketIsRefusedWhateverItHolds) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                    Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    const auto limit = MakeLimit(algorithm);
    for (int i = 0; i < 20'000; ++i) {
      std::string bytes(random.Below(60), 0);
      for (char& byte : bytes)
        byte = static_cast<char>(random.Below(4) == 0 ? random.Below(256) : random.Below(2));
      if (bytes.size() > 1) bytes[0] = 1, bytes[1] = static_cast<char>(algorithm);
      FoundRoom room;
      core::BucketView view;
      std::string_view left = bytes;
      if (!TakeFound(*limit, left, room, view)) continue;
      core::Operation operation;
      operation.limit = limit.get();
      operation.cost = 1;
      operation.bucket = view;
      core::DecideGroup({&operation, 1}, {}, {kNow});  // whatever comes out: nothing overflows (sanitizers)
    }
  }
}

TEST_F(ScriptCallTest, PlainRequestsOfOneAlgorithmShareACall) {
  const auto window = MakeLimit(Algorithm::kFixedWindow);
  EXPECT_EQ(Add(*bucket_, "a"), ScriptCall::Added::kYes);
  EXPECT_EQ(Add(*bucket_, "b"), ScriptCall::Added::kYes);
  EXPECT_EQ(Add(*bucket_, "a", 2), ScriptCall::Added::kYes);
  EXPECT_EQ(Add(*window, "c"), ScriptCall::Added::kOtherScript);
  EXPECT_EQ(Add(*bucket_, "d", 0), ScriptCall::Added::kOtherScript);
  EXPECT_EQ(Add(*bucket_, "d", 1, "id"), ScriptCall::Added::kOtherScript);
  EXPECT_EQ(Add(*bucket_, "d", 1, {}, true), ScriptCall::Added::kOtherScript);
  EXPECT_EQ(call_.kind(), ScriptKind::kTokenBucket);
  const std::vector<std::string> arguments = Arguments();
  ASSERT_EQ(arguments.size(), 8u);
  EXPECT_EQ(arguments[0], "EVALSHA");
  EXPECT_EQ(arguments[1], Scripts()[0].sha1);
  EXPECT_EQ(arguments[2], "2");
  EXPECT_EQ(arguments[3], "a");
  EXPECT_EQ(arguments[4], "b");
  EXPECT_EQ(arguments[6].size(), PackedLimit::kBytes);
  EXPECT_EQ(arguments[7], std::string("\1\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0", 24));
}

TEST_F(ScriptCallTest, NotAfterIsPatchedIntoTheCommandAsOftenAsNeeded) {
  Add(*bucket_, "a");
  const void* const before = call_.command().data();
  for (const int64_t at : {kNow, kNow + 1}) {
    call_.SetNotAfter({at});
    EXPECT_EQ(Arguments()[4], Number(at));
  }
  EXPECT_EQ(call_.command().data(), before);
}

TEST_F(ScriptCallTest, ACallIsBoundedAndAPartAloneAlwaysFits) {
  for (size_t i = 0; i < ScriptCall::kMaxGroups; ++i) {
    ASSERT_EQ(Add(*bucket_, std::to_string(i)), ScriptCall::Added::kYes);
  }
  EXPECT_EQ(Add(*bucket_, "x"), ScriptCall::Added::kFull);
  call_.Clear();
  const std::string large(ScriptCall::kMaxBytes, 'k');
  EXPECT_EQ(Add(*bucket_, large), ScriptCall::Added::kYes);
  EXPECT_EQ(Add(*bucket_, "x"), ScriptCall::Added::kFull);
}

TEST_F(ScriptCallTest, VerdictsAreMadeOfWhatWasFound) {
  Add(*bucket_, "a", 3);
  Add(*bucket_, "b", 9);
  Add(*bucket_, "c");
  ASSERT_TRUE(Read(Number(kNow) + "A" + std::string(1, 0) + "R" +
                   Bucket(*bucket_, kNow, 5 * bucket_->params.unit_cost) + "O"));
  EXPECT_EQ(call_.now(), EngineTime{kNow});
  const auto operations = batch_.operations();
  EXPECT_EQ(operations[0].verdict.outcome, Outcome::kAllowed);
  EXPECT_EQ(operations[0].verdict.remaining, 7);
  EXPECT_EQ(operations[1].verdict.outcome, Outcome::kDenied);
  EXPECT_EQ(operations[1].verdict.remaining, 5);
  EXPECT_EQ(batch_.groups()[0].result.state, GroupState::kDecided);
  EXPECT_EQ(call_.sent()[0].answer, ScriptCall::Answer::kDecided);
  EXPECT_TRUE(call_.sent()[0].charged);
  EXPECT_EQ(call_.sent()[2].answer, ScriptCall::Answer::kAskGroup);
  call_.TakeBack(call_.sent()[0], undo_);
  ASSERT_EQ(undo_.size(), 1u);
  EXPECT_EQ(undo_[0].key, "a");
  EXPECT_EQ(undo_[0].charge.cost, 3);
}

TEST_F(ScriptCallTest, AChargeThatNobodyWaitsForBecomesAnUndo) {
  Add(*bucket_, "a", 3);
  Add(*bucket_, "b", 9);
  for (ScriptCall::Sent& sent : call_.sent()) ScriptCall::Abandon(sent);
  batch_.Clear();
  ASSERT_TRUE(Read(Number(kNow) + "A" + Bucket(*bucket_, kNow, 2 * bucket_->params.unit_cost) + "R" +
                   Bucket(*bucket_, kNow, 5 * bucket_->params.unit_cost)));
  ASSERT_EQ(undo_.size(), 1u);
  EXPECT_EQ(undo_[0].key, "a");
  EXPECT_EQ(undo_[0].charge.cost, 3);
  EXPECT_EQ(undo_[0].charge.debt_before, 2 * bucket_->params.unit_cost);
  EXPECT_EQ(undo_[0].charge.version, 7);
  EXPECT_TRUE(undo_[0].unless_replayed);
  call_.Clear();
  EXPECT_EQ(call_.AddUndo(undo_, 5), ScriptCall::Added::kYes);
  EXPECT_EQ(call_.kind(), ScriptKind::kGroup);
  EXPECT_EQ(call_.sent()[0].tag, 5u);
  const std::string changed = std::string("D") + std::string(1, 0) + Number(1) + Number(0) + Number(0) +
                              Number(0) + Number(7) + Bucket(*bucket_, kNow, 0);
  ASSERT_TRUE(Read(Number(kNow) + changed));
  EXPECT_EQ(call_.sent()[0].answer, ScriptCall::Answer::kDecided);
}

TEST_F(ScriptCallTest, AScriptThatDisagreesWithCoreIsAnErrorAndNotAnAnswer) {
  Add(*bucket_, "a", 3);
  ASSERT_TRUE(Read(Number(kNow) + "R" + std::string(1, 0)));
  EXPECT_EQ(call_.sent()[0].answer, ScriptCall::Answer::kBroken);
  EXPECT_EQ(batch_.groups()[0].result.state, GroupState::kUnavailable);
  EXPECT_EQ(batch_.operations()[0].verdict.outcome, Outcome::kUnavailable);
}

TEST_F(ScriptCallTest, LettersOfOneGroupEach) {
  struct Case {
    char letter;
    ScriptCall::Answer answer;
    GroupState state;
    Reason reason;
  };
  using enum ScriptCall::Answer;
  for (const Case& one : {Case{'S', kDecided, GroupState::kStale, Reason::kNone},
                          Case{'C', kDecided, GroupState::kStaleClock, Reason::kNone},
                          Case{'K', kDecided, GroupState::kConflict, Reason::kNone},
                          Case{'U', kDecided, GroupState::kUnknownId, Reason::kNone},
                          Case{'L', kLate, GroupState::kUnavailable, Reason::kTimeout},
                          Case{'F', kFull, GroupState::kUnavailable, Reason::kFull},
                          Case{'X', kForeign, GroupState::kUnavailable, Reason::kEngineDown},
                          Case{'N', kNewer, GroupState::kUnavailable, Reason::kEngineDown}}) {
    call_.Clear();
    batch_.Clear();
    Add(*bucket_, "a", 1, "id");
    ASSERT_TRUE(Read(Number(kNow) + one.letter));
    EXPECT_EQ(call_.sent()[0].answer, one.answer) << one.letter;
    EXPECT_EQ(batch_.groups()[0].result.state, one.state) << one.letter;
    EXPECT_EQ(batch_.groups()[0].result.reason, one.reason) << one.letter;
  }
}

// A kept record that is well in itself, of no operations, as the answer to a call that has no ids.
TEST_F(ScriptCallTest, APlainCallIsNeverReplayed) {
  ASSERT_EQ(Add(*bucket_, "a"), ScriptCall::Added::kYes);
  const std::string record =
      std::string("\x01\x0f", 2) + std::string(19, 0) + Number(kNow) + std::string(30, 0);
  ASSERT_TRUE(Read(Number(kNow) + 'P' + std::string{static_cast<char>(record.size()), 0, 0, 0} + record));
  EXPECT_EQ(call_.sent()[0].answer, ScriptCall::Answer::kBroken);
  EXPECT_EQ(batch_.groups()[0].result.state, GroupState::kUnavailable);
}

TEST_F(ScriptCallTest, AnErrorFillsNothingAndGarbageIsNeverBelieved) {
  Add(*bucket_, "a", 3);
  EXPECT_FALSE(Read("ERR no", resp::ReplyType::kError));
  EXPECT_EQ(call_.sent()[0].answer, ScriptCall::Answer::kNone);
  Random random(TestSeed());
  for (int i = 0; i < 30'000; ++i) {
    call_.Clear();
    batch_.Clear();
    const bool plain = random.Below(2) == 0;
    Add(*bucket_, "a", 1, plain ? "" : "id");
    std::string reply = Number(kNow);
    if (!plain && random.Below(2) == 0) {
      const std::string rest = std::string("\x01\x0f", 2) + std::string(random.Below(300), 1);
      reply += 'P';
      reply += std::string{static_cast<char>(rest.size() & 255), static_cast<char>(rest.size() >> 8), 0, 0};
      reply += rest;
    } else {
      reply += "AaRDPOSCKULFXN"[random.Below(14)];
      reply.append(random.Below(80), static_cast<char>(random.Below(3)));
    }
    for (uint64_t n = random.Below(4); n > 0; --n) {
      reply[8 + random.Below(reply.size() - 8)] = static_cast<char>(random.Below(256));
    }
    ASSERT_TRUE(Read(reply));
    ASSERT_NE(call_.sent()[0].answer, ScriptCall::Answer::kNone);
  }
}

TEST(Scripts, EachHasItsNameAndAPreludeStandsBeforeAll) {
  ASSERT_EQ(Scripts().size(), 9u);
  EXPECT_EQ(Scripts()[static_cast<size_t>(ScriptKind::kGroup)].name, "group");
  EXPECT_EQ(Scripts()[static_cast<size_t>(ScriptKind::kFleet)].name, "fleet");
  EXPECT_EQ(Scripts()[0].name, "token_bucket");
  EXPECT_EQ(Scripts()[0].sha1.size(), 40u);
  const std::vector<Script> moved = ScriptsWith("local x ");
  EXPECT_EQ(moved[0].text, "local x " + Scripts()[0].text);
  EXPECT_NE(moved[0].sha1, Scripts()[0].sha1);
}

}  // namespace
}  // namespace penstock::engine::redis
