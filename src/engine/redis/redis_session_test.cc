// A session over a network worked by hand: who is answered, when, and how often.
#include "engine/redis/redis_session.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/params.h"
#include "engine/redis/binding.h"
#include "engine/redis/testing/fake_net.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

class RedisSessionTest : public ::testing::Test, protected Sink {
 protected:
  static Options OneServer(TopologyKind kind) {
    Options options;
    options.topology = kind;
    options.seeds.emplace_back().host = "store";
    options.seeds.front().port = 6379;
    return options;
  }

  explicit RedisSessionTest(TopologyKind kind = TopologyKind::kSingle) : engine_(OneServer(kind), clock_) {
    const Result<core::LimitParams> params = core::CompileRate({.count = 10, .period = Seconds(60)});
    EXPECT_TRUE(params);
    limit_.domain = "d";
    limit_.name = "l";
    limit_.identity = "d/l";
    limit_.params = *params;
    limit_.version = 7;
    session_ = engine_.OpenLoop({loop_, loop_, &dialer_});
    core::Limit* const limits[] = {&limit_};
    EXPECT_TRUE(session_->Bind(limits));
  }

  void Decided(Batch&, Group& group) noexcept override { heard_.push_back(group.result); }

  void Ask(Batch& batch, Micros within) {
    batch.Clear();
    batch.AddGroup().domain = "d";
    batch.AddOperation(limit_, {}).cost = 1;
    session_->Decide(batch, clock_.Steady() + within, *this);
  }

  // Answers the greeting, whatever it asks.
  void Greet() {
    by_hand::FakeStream* const stream = dialer_.streams.front();
    stream->handler.Connected();
    for (;;) {
      const auto commands = by_hand::Commands(stream->Take());
      if (commands.empty()) return;
      for (const auto& command : commands) {
        dialer_.Feed(stream, ReplyTo(command[0]));
      }
    }
  }
  static const char* ReplyTo(std::string_view command) {
    if (command == "TIME") return "*2\r\n$10\r\n1000000000\r\n$1\r\n0\r\n";
    if (command == "CLUSTER") return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$5\r\nstore\r\n:6379\r\n";
    return "+OK\r\n";
  }

  ManualClock clock_{EngineTime{5'000'000}};
  by_hand::FakeLoop loop_{clock_};
  by_hand::FakeDialer dialer_;
  RedisEngine engine_;
  core::Limit limit_;
  std::vector<GroupResult> heard_;
  std::unique_ptr<EngineSession> session_;
};

TEST_F(RedisSessionTest, CloseAnswersWhatIsQueuedAndWhatIsInFlightAndWhatComesLaterIsAnsweredAtOnce) {
  Greet();
  Batch in_flight, queued, later;
  Ask(in_flight, Seconds(1));
  loop_.Run();
  Ask(queued, Seconds(1));
  EXPECT_TRUE(heard_.empty());
  session_->Close();
  ASSERT_EQ(heard_.size(), 2u);
  Ask(later, Seconds(1));
  ASSERT_EQ(heard_.size(), 3u);
  EXPECT_EQ(heard_[0].reason, Reason::kShuttingDown);
  EXPECT_FALSE(heard_[0].may_have_run);
  EXPECT_TRUE(heard_[1].may_have_run);
  EXPECT_EQ(heard_[2].reason, Reason::kShuttingDown);
  session_.reset();
  loop_.Run();
  EXPECT_EQ(heard_.size(), 3u);
}

TEST_F(RedisSessionTest, WhatIsTooLateIsNotSentAndTakesNobodyWithIt) {
  Greet();
  Batch late, good;
  Ask(late, Micros{0});
  Ask(good, Seconds(1));
  loop_.Run();
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(heard_[0].reason, Reason::kTimeout);
  EXPECT_FALSE(heard_[0].may_have_run);
  session_->Close();  // the batches go now
  EXPECT_EQ(heard_.size(), 2u);
}

TEST_F(RedisSessionTest, ABucketOfPermitsHasItsNameThoughItCouldNotBeAsked) {
  Greet();
  const Result<core::LimitParams> params =
      core::CompileRate({.algorithm = core::Algorithm::kPermits, .count = 5, .period = Seconds(30)});
  ASSERT_TRUE(params);
  limit_.params = *params;
  core::Limit* const limits[] = {&limit_};
  ASSERT_TRUE(session_->Bind(limits));
  Batch late;
  Ask(late, Micros{0});
  loop_.Run();
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(heard_[0].state, GroupState::kUnavailable);
  std::string readable;
  EXPECT_TRUE(late.operations()[0].named);
  EXPECT_EQ(late.operations()[0].name, BindingOf(limit_).keys.AppendReadable(readable, {}));
}

// Whether the script had written when it failed nobody knows.
TEST_F(RedisSessionTest, AnErrorThatIsNoRefusalMayHaveRun) {
  Greet();
  Batch batch;
  Ask(batch, Seconds(1));
  loop_.Run();
  dialer_.Feed(dialer_.streams.front(), "-ERR user_script:7: something went wrong script: abc\r\n");
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(heard_[0].state, GroupState::kUnavailable);
  EXPECT_TRUE(heard_[0].may_have_run);
}

TEST_F(RedisSessionTest, AnAnswerThatMakesNoSenseMayHaveRun) {
  Greet();
  Batch batch;
  Ask(batch, Seconds(1));
  loop_.Run();
  dialer_.Feed(dialer_.streams.front(), "$3\r\nabc\r\n");
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(heard_[0].state, GroupState::kUnavailable);
  EXPECT_TRUE(heard_[0].may_have_run);
}

// All buckets of a tenant are in one slot, so that its requests share calls.
class RedisSessionOnACluster : public RedisSessionTest {
 protected:
  RedisSessionOnACluster() : RedisSessionTest(TopologyKind::kCluster) {
    limit_.key_names = {"tenant", "user"};
    limit_.shard_part = 0;
    core::Limit* const limits[] = {&limit_};
    EXPECT_TRUE(session_->Bind(limits));
    Greet();
  }

  void AskFor(Batch& batch, std::string_view user) {
    const std::string_view key[] = {"t", user};
    batch.Clear();
    batch.AddGroup().domain = "d";
    batch.AddOperation(limit_, key).cost = 1;
    session_->Decide(batch, clock_.Steady() + Seconds(1), *this);
  }
  // The turn ends: what is sent, as the number of keys of each call for the tenant, -1 for ASKING.
  std::vector<int> Sent() {
    loop_.Run();
    std::vector<int> out;
    for (const std::vector<std::string>& command : by_hand::Commands(dialer_.streams.front()->Take())) {
      const bool asking = command[0] == "ASKING";
      const bool decides = command[0] == "EVALSHA" && command[3].find("{d:t}") != std::string::npos;
      if (asking || decides) out.push_back(asking ? -1 : std::stoi(command[2]));
      unanswered_.push_back(decides);
    }
    return out;
  }
  // The oldest of these calls gets its reply; what stands before it (a heartbeat, ASKING) is told that all is well.
  void Answer(std::string_view reply) {
    for (bool decides = false; !decides && !unanswered_.empty();) {
      decides = unanswered_.front();
      unanswered_.pop_front();
      dialer_.Feed(dialer_.streams.front(), decides ? reply : "+OK\r\n");
    }
  }

  static constexpr std::string_view kTryAgain =
      "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
  std::deque<bool> unanswered_;  // in order; true: a call for the tenant
};

TEST_F(RedisSessionOnACluster, WhatSharesACallIsAskedOneByOneWhereItsSlotIsOnTheMove) {
  Batch here, gone, later;
  AskFor(here, "here");
  AskFor(gone, "gone");
  EXPECT_EQ(Sent(), std::vector<int>{2});
  Answer(kTryAgain);
  EXPECT_EQ(Sent(), (std::vector<int>{1, 1})) << "at once, each by itself";
  // One of them is there, the other is asked where it went.
  Answer("$-1\r\n");
  EXPECT_EQ(heard_.size(), 1u);
  Answer("-ASK 7 store:6379\r\n");
  EXPECT_EQ(Sent(), (std::vector<int>{-1, 1}));
  Answer("$-1\r\n");
  EXPECT_EQ(heard_.size(), 2u);
  // It is over: who comes then shares calls again.
  AskFor(here, "here");
  AskFor(later, "later");
  EXPECT_EQ(Sent(), std::vector<int>{2});
  session_->Close();
  EXPECT_EQ(heard_.size(), 4u);
}

TEST_F(RedisSessionOnACluster, WhatWasDividedWaitsByItselfAndIsSentAgainFiveTimesInAll) {
  Batch one, two;
  AskFor(one, "one");
  AskFor(two, "two");
  EXPECT_EQ(Sent(), std::vector<int>{2});
  Answer(kTryAgain);
  EXPECT_EQ(Sent(), (std::vector<int>{1, 1}));
  Answer("$-1\r\n");
  for (int again = 2; again <= kMaxRedirects; ++again) {
    Answer(kTryAgain);
    EXPECT_TRUE(Sent().empty());
    loop_.Advance(Millis(16));
    EXPECT_EQ(Sent(), std::vector<int>{1}) << again;
  }
  EXPECT_EQ(heard_.size(), 1u);
  Answer(kTryAgain);
  ASSERT_EQ(heard_.size(), 2u);
  EXPECT_EQ(heard_[1].state, GroupState::kUnavailable);
  EXPECT_FALSE(heard_[1].may_have_run);
}

}  // namespace
}  // namespace penstock::engine::redis
