#include "engine/redis/hints.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/redis/testing/fake_net.h"

namespace penstock::engine::redis {
namespace {

class HintsTest : public ::testing::Test {
 protected:
  Hints::Heard Write() {
    return [this](std::string_view what) { heard_.emplace_back(what); };
  }

  ManualClock clock_{EngineTime{5'000'000}};
  by_hand::FakeLoop loop_{clock_};
  Hints hints_{"pen:"};
  std::vector<std::string> heard_;
};

TEST_F(HintsTest, WhoListensHearsOnTheirLoop) {
  EXPECT_EQ(hints_.channel(), "pen:hints");
  EXPECT_FALSE(hints_.wanted());
  hints_.Tell("limits 1");
  auto listening = hints_.Listen(HintKind::kLimits, loop_, Write());
  EXPECT_TRUE(hints_.wanted());
  hints_.Tell("limits 2");
  EXPECT_TRUE(heard_.empty()) << "not inside";
  hints_.TellMissed();
  hints_.Tell("limits");
  loop_.Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"2", "", ""}));
  EXPECT_EQ(hints_.stats().heard[0], 3u);
  listening.reset();
  EXPECT_FALSE(hints_.wanted());
}

TEST_F(HintsTest, WhatNobodyKnowsIsCounted) {
  auto listening = hints_.Listen(HintKind::kLimits, loop_, Write());
  for (const std::string_view message : {"", " ", "limit 1", "limits1", "free pen:{api/x}"})
    hints_.Tell(message);
  loop_.Run();
  EXPECT_TRUE(heard_.empty());
  EXPECT_EQ(hints_.stats().unknown, 5u);
}

TEST_F(HintsTest, AfterTheEndNothingIsHeard) {
  auto listening = hints_.Listen(HintKind::kLimits, loop_, Write());
  hints_.Tell("limits 1");
  listening.reset();
  loop_.Run();
  EXPECT_TRUE(heard_.empty());
}

TEST_F(HintsTest, ACallbackMayEndIt) {
  std::unique_ptr<Hints::Listening> listening;
  const std::string kept(64, 'x');  // of the callback's own, alive while it runs
  listening = hints_.Listen(HintKind::kLimits, loop_, [&, kept](std::string_view) {
    listening.reset();
    heard_.push_back(kept);
  });
  hints_.Tell("limits 1");
  hints_.Tell("limits 2");
  loop_.Run();
  EXPECT_EQ(heard_, std::vector<std::string>{kept});
}

}  // namespace
}  // namespace penstock::engine::redis
