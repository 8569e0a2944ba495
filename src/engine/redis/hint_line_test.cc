#include "engine/redis/hint_line.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/redis/testing/fake_net.h"
#include "engine/redis/testing/topology_fakes.h"

namespace penstock::engine::redis {
namespace {

using by_hand::Commands;
using by_hand::FakeLoop;
using testing::At;
using testing::FakeDialer;
using testing::FakeLink;
using testing::FakeStream;

constexpr std::string_view kHello = "*2\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
constexpr std::string_view kTimeAndPong = "*2\r\n$10\r\n1000000000\r\n$3\r\n250\r\n+PONG\r\n";
constexpr std::string_view kNobodyHeard = ":0\r\n";
constexpr std::string_view kSubscribed = "*3\r\n$9\r\nsubscribe\r\n$9\r\npen:hints\r\n:1\r\n";
constexpr std::string_view kPong = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
constexpr std::string_view kHint = "*3\r\n$7\r\nmessage\r\n$9\r\npen:hints\r\n$8\r\nlimits 7\r\n";

class NoOwner final : public LinkOwner {
 public:
  void Redirected(ServerLink&, Exchange&, const Redirect&) noexcept override {}
  void LinkChanged(ServerLink&) noexcept override {}
};

// A topology whose one server changes when the test says so.
class Movable final : public Topology {
 public:
  Movable() { MoveTo("m1"); }
  void MoveTo(std::string host) {
    link_ = std::make_unique<FakeLink>(At(std::move(host), 6379), owner_, all_);
    link_->SetUsable(true);
  }
  ServerLink* LinkFor(int32_t slot) noexcept override {
    slots.push_back(slot);
    return known ? link_.get() : nullptr;
  }
  bool has_slots() const override { return true; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override { visit(*link_); }
  std::vector<LinkInfo> Links() const override { return {}; }
  std::string_view trouble() const override { return {}; }
  FakeLink& link() { return *link_; }

  bool known = true;
  std::vector<int32_t> slots;  // that were asked for

 private:
  NoOwner owner_;
  std::vector<FakeLink*> all_;
  std::unique_ptr<FakeLink> link_;
};

class HintLineTest : public ::testing::Test {
 protected:
  ~HintLineTest() override { line_.Stop(); }

  // Somebody listens, and the line begins.
  void Start() {
    listening_ =
        hints_.Listen(HintKind::kLimits, loop_, [this](std::string_view what) { heard_.emplace_back(what); });
    line_.Start(topology_);
    loop_.Run();
  }
  FakeStream& Stream() {
    if (dialer_.streams.size() != 1) throw std::runtime_error("not one connection");
    return *dialer_.streams.front();
  }
  // Until it publishes and subscribes.
  void Greet() {
    Stream().handler.Connected();
    Stream().written.clear();
    Stream().Say(kHello);
    Stream().written.clear();
    Stream().Say(kTimeAndPong);
    const auto commands = Commands(Stream().written);
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0], (std::vector<std::string>{"PUBLISH", "pen:hints:try", ""}));
    EXPECT_EQ(commands[1], (std::vector<std::string>{"SUBSCRIBE", "pen:hints"}));
    Stream().written.clear();
  }
  void Subscribe() {
    Greet();
    Stream().Say(kNobodyHeard);
    Stream().Say(kSubscribed);
    ASSERT_EQ(hints_.stats().listening, 1);
    loop_.Run();
  }
  // Listening, and what was missed before is told.
  void Ready() {
    Start();
    Subscribe();
    ASSERT_EQ(heard_, std::vector<std::string>{""});
    heard_.clear();
  }

  ManualClock clock_{EngineTime{5'000'000}};
  FakeLoop loop_{clock_};
  FakeDialer dialer_;
  Options options_;
  Hints hints_{"pen:"};
  Movable topology_;
  HintLine line_{hints_, {dialer_, loop_, clock_}, options_};
  std::unique_ptr<Hints::Listening> listening_;
  std::vector<std::string> heard_;
};

TEST_F(HintLineTest, WhatIsPublishedIsHeard) {
  Ready();
  for (const char byte : std::string(kHint)) Stream().Say({&byte, 1});
  Stream().Say(std::string(kPong) + std::string(kHint));
  Stream().Say("*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$8\r\nlimits 8\r\n");
  loop_.Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"7", "7"}));
}

TEST_F(HintLineTest, NobodyIsCalledBeforeSomebodyListensOrAfterwards) {
  line_.Start(topology_);
  loop_.Advance(Seconds(5));
  EXPECT_EQ(dialer_.dialed, 0);
  listening_ = hints_.Listen(HintKind::kLimits, loop_, [](std::string_view) {});
  loop_.Advance(HintLine::kCheck);
  Subscribe();
  listening_.reset();
  loop_.Advance(HintLine::kCheck);
  EXPECT_TRUE(dialer_.streams.empty());
  EXPECT_EQ(hints_.stats().listening, 0);
  EXPECT_EQ(hints_.stats().lost, 0u);
}

TEST_F(HintLineTest, OneLoopOfTheProcessHasTheConnection) {
  Ready();
  HintLine other(hints_, {dialer_, loop_, clock_}, options_);
  other.Start(topology_);
  for (int i = 0; i < 5; ++i) {
    loop_.Advance(Seconds(1));
    Stream().Say(kPong);
  }
  line_.Stop();
  EXPECT_TRUE(dialer_.streams.empty());
  loop_.Advance(HintLine::kCheck);
  Subscribe();
  other.Stop();
  EXPECT_EQ(hints_.stats().listening, 0);
  EXPECT_EQ(loop_.timers(), 0u);
}

TEST_F(HintLineTest, LogsInAsTheLinksDo) {
  options_.user = "pen";
  options_.password = "secret";
  Start();
  Stream().handler.Connected();
  const auto commands = Commands(Stream().written);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(std::vector<std::string>(commands[0].begin(), commands[0].begin() + 5),
            (std::vector<std::string>{"HELLO", "2", "AUTH", "pen", "secret"}));
}

TEST_F(HintLineTest, AConnectionThatBreaksIsMadeAgainAndWhatWasMissedIsTold) {
  Ready();
  Stream().handler.Closed("connection reset");
  EXPECT_EQ(hints_.stats().listening, 0);
  EXPECT_TRUE(dialer_.streams.empty());
  loop_.Advance(options_.backoff_min);
  Subscribe();
  EXPECT_EQ(heard_, std::vector<std::string>{""});
  EXPECT_EQ(hints_.stats().lost, 1u);
  EXPECT_EQ(hints_.stats().subscribed, 2u);
}

TEST_F(HintLineTest, ASilentConnectionIsGivenUp) {
  Ready();
  for (int i = 0; i < 10; ++i) {
    loop_.Advance(HintLine::kCheck);
    ASSERT_EQ(Commands(Stream().written), (std::vector<std::vector<std::string>>{{"PING"}}));
    Stream().written.clear();
    Stream().Say(kPong);
  }
  loop_.Advance(HintLine::kSilence);
  EXPECT_EQ(hints_.stats().lost, 1u);
  loop_.Advance(options_.backoff_min);
  Subscribe();
}

TEST_F(HintLineTest, AnAttemptThatLastsTooLongIsMadeAnew) {
  Start();
  FakeStream* const first = &Stream();
  loop_.Advance(options_.connect_timeout);
  EXPECT_TRUE(dialer_.streams.empty());
  loop_.Advance(options_.backoff_min);
  EXPECT_EQ(dialer_.dialed, 2);
  EXPECT_NE(first, nullptr);
  Greet();
  Stream().Say(kNobodyHeard);  // and then nothing
  loop_.Advance(options_.connect_timeout);
  EXPECT_TRUE(dialer_.streams.empty());
  loop_.Advance(options_.backoff_max);
  Subscribe();
}

TEST_F(HintLineTest, AServerThatIsAwayIsNotCalled) {
  topology_.known = false;
  Start();
  loop_.Advance(Seconds(10));
  topology_.known = true;
  topology_.link().SetUsable(false);
  loop_.Advance(Seconds(10));
  EXPECT_EQ(dialer_.dialed, 0);
  topology_.link().SetUsable(true);
  loop_.Advance(options_.backoff_max);
  Subscribe();
  for (const int32_t slot : topology_.slots) EXPECT_EQ(slot, topology_.slots.front()) << "drawn once";
}

TEST_F(HintLineTest, ItFollowsTheTopology) {
  Ready();
  topology_.known = false;  // while it is not known who serves
  loop_.Advance(HintLine::kCheck);
  Stream().Say(kPong);
  EXPECT_EQ(Stream().target.host, "m1");
  topology_.known = true;
  topology_.MoveTo("m2");
  topology_.link().SetUsable(false);
  loop_.Advance(HintLine::kCheck);
  Stream().Say(kPong);
  EXPECT_EQ(Stream().target.host, "m1") << "better than nobody";
  topology_.link().SetUsable(true);
  loop_.Advance(HintLine::kCheck);
  EXPECT_EQ(Stream().target.host, "m2");
  Subscribe();
  EXPECT_EQ(heard_, std::vector<std::string>{""});
  EXPECT_EQ(hints_.stats().lost, 0u);
}

TEST_F(HintLineTest, WithoutTheRightToSubscribeItAsksAgainMuchLaterAndSaysSoOnce) {
  Start();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    Greet();
    Stream().Say(
        "-NOPERM this user has no permissions to run the 'publish' command\r\n"
        "-NOPERM this user has no permissions to run the 'subscribe' command\r\n");
    EXPECT_TRUE(dialer_.streams.empty());
    loop_.Advance(HintLine::kRefusedPause - Millis(1));
    EXPECT_TRUE(dialer_.streams.empty());
    loop_.Advance(Millis(1));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_NE(log.find("&pen:* +publish +subscribe"), std::string::npos) << log;
  EXPECT_EQ(hints_.stats().refused, 3u);
  Subscribe();
}

TEST_F(HintLineTest, WithoutTheRightToPublishItListens) {
  Start();
  Greet();
  ::testing::internal::CaptureStderr();
  Stream().Say("-NOPERM No permissions to access a channel\r\n");
  Stream().Say(kSubscribed);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("no hints are given"), std::string::npos) << log;
  EXPECT_NE(log.find("&pen:* +publish +subscribe"), std::string::npos) << log;
  Stream().Say(kHint);
  loop_.Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"", "7"}));
}

TEST_F(HintLineTest, WhateverElseTheServerSaysItTriesAgain) {
  Start();
  const auto said = [&](std::string_view reply) {
    Stream().Say(reply);
    EXPECT_TRUE(dialer_.streams.empty()) << reply;
    loop_.Advance(options_.backoff_max);
  };
  Stream().handler.Connected();
  said("-WRONGPASS invalid username-password pair\r\n");
  Greet();
  said(":0\r\n-ERR unknown command 'SUBSCRIBE'\r\n");
  Greet();
  said(":0\r\n+OK\r\n");
  Greet();
  said("!?\r\n");
  said(kHello);  // before anything was asked
  Stream().handler.Closed("connection refused");
  loop_.Advance(options_.backoff_max);
  Subscribe();
  Stream().Say("-NOPERM this user has no permissions to run the 'ping' command\r\n");
  EXPECT_EQ(hints_.stats().listening, 1) << "a sign of life";
}

}  // namespace
}  // namespace penstock::engine::redis
