// A session over a network worked by hand: who is answered, when, and how often.
#include "engine/redis/redis_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/params.h"
#include "engine/redis/testing/fake_net.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

class RedisSessionTest : public ::testing::Test, protected Sink {
 protected:
  static Options OneServer() {
    Options options;
    options.seeds.emplace_back().host = "store";
    options.seeds.front().port = 6379;
    return options;
  }

  RedisSessionTest() {
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
        dialer_.Feed(stream, command[0] == "TIME" ? "*2\r\n$10\r\n1000000000\r\n$1\r\n0\r\n" : "+OK\r\n");
      }
    }
  }

  ManualClock clock_{EngineTime{5'000'000}};
  by_hand::FakeLoop loop_{clock_};
  by_hand::FakeDialer dialer_;
  RedisEngine engine_{OneServer(), clock_};
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

}  // namespace
}  // namespace penstock::engine::redis
