// What a link does when all goes well: greeting, pipelining, deadlines.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/build_name.h"
#include "engine/redis/testing/link_fixture.h"

namespace penstock::engine::redis::by_hand {
namespace {

// ---- greeting

TEST_F(LinkTest, TheGreetingNamesUsAndLoadsEveryScript) {
  options_.user = "pen";
  options_.password = "secret";
  options_.database = 3;
  Open();
  EXPECT_EQ(stream()->Take(), "");
  stream()->handler.Connected();
  using Command = std::vector<std::string>;
  EXPECT_EQ(Commands(stream()->Take()),
            (std::vector<Command>{{"HELLO", "2", "AUTH", "pen", "secret", "SETNAME", ConnectionName()}}));
  dialer_.Feed(stream(), kHelloOk);
  EXPECT_EQ(Commands(stream()->Take()), (std::vector<Command>{{"SELECT", "3"},
                                                              {"TIME"},
                                                              {"SCRIPT", "LOAD", "return 1"},
                                                              {"SCRIPT", "LOAD", "return 2"},
                                                              {"PING"}}));
  EXPECT_FALSE(link_->usable());
  dialer_.Feed(stream(), "+OK\r\n" + GreetingRest());
  EXPECT_TRUE(link_->usable());
  EXPECT_EQ(changes_, std::vector{true});
  EXPECT_EQ(link_->clock().Estimate(clock_.Steady()).us, 1'000'000'000'000'250);
  EXPECT_EQ(link_->last_error(), "");
  EXPECT_EQ(stats().connects, 1u);
}

TEST_F(LinkTest, WhereHelloIsUnknownAuthFollows) {
  options_.password = "secret";
  Open();
  stream()->handler.Connected();
  stream()->Take();
  dialer_.Feed(stream(), "-ERR unknown command `HELLO`, with args beginning with: `2`, `AUTH`, `secret`\r\n");
  const auto commands = Commands(stream()->Take());
  ASSERT_EQ(commands.size(), 6u);
  EXPECT_EQ(commands[0], (std::vector<std::string>{"AUTH", "secret"}));
  EXPECT_EQ(commands[1], (std::vector<std::string>{"CLIENT", "SETNAME", ConnectionName()}));
  dialer_.Feed(stream(), "+OK\r\n-NOPERM no\r\n" + GreetingRest());
  EXPECT_TRUE(link_->usable());
}

TEST_F(LinkTest, AWrongPasswordSaysSoWithoutTellingIt) {
  options_.password = "secret";
  Open();
  stream()->handler.Connected();
  dialer_.Feed(stream(), "-WRONGPASS invalid username-password pair secret\r\n");
  EXPECT_FALSE(link_->usable());
  EXPECT_NE(link_->last_error().find("WRONGPASS"), std::string::npos) << link_->last_error();
  EXPECT_NE(link_->last_error().find("ACL SETUSER"), std::string::npos) << link_->last_error();
  EXPECT_EQ(link_->last_error().find("secret"), std::string::npos) << link_->last_error();
  EXPECT_EQ(changes_, std::vector{false});
  EXPECT_TRUE(dialer_.streams.empty());
}

TEST_F(LinkTest, AnOldServersEchoOfThePasswordIsNotTold) {
  options_.user = "pen";
  options_.password = "secret";
  Open();
  stream()->handler.Connected();
  dialer_.Feed(stream(), "-ERR unknown command `HELLO`, with args beginning with: `secret`\r\n");
  dialer_.Feed(stream(), "-ERR wrong number of arguments for 'auth' command secret\r\n");
  EXPECT_FALSE(link_->last_error().empty());
  EXPECT_EQ(link_->last_error().find("secret"), std::string::npos) << link_->last_error();
}

TEST_F(LinkTest, AMissingPermissionNamesItsRule) {
  Open();
  stream()->handler.Connected();
  dialer_.Feed(stream(), kHelloOk);
  dialer_.Feed(stream(), std::string(kTimeReply) +
                             "-NOPERM User pen has no permissions to run the 'script|load' command\r\n");
  EXPECT_FALSE(link_->usable());
  EXPECT_NE(link_->last_error().find("the rule +script|load is missing"), std::string::npos)
      << link_->last_error();
}

TEST_F(LinkTest, AServerThatLoadsIsTriedAgainUntilItIsReady) {
  Open();
  stream()->handler.Connected();
  dialer_.Feed(stream(), kHelloOk);
  dialer_.Feed(stream(), std::string(kTimeReply) + "-LOADING Redis is loading the dataset in memory\r\n");
  EXPECT_FALSE(link_->usable());
  EXPECT_TRUE(dialer_.streams.empty());
  loop_.Advance(Millis(10));
  ASSERT_EQ(dialer_.streams.size(), 1u);
  Greet(stream());
  EXPECT_TRUE(link_->usable());
  EXPECT_EQ(changes_, (std::vector{false, true}));
}

TEST_F(LinkTest, ASentinelHasNeitherClockNorScripts) {
  Open();
  stream()->handler.Connected();
  dialer_.Feed(stream(), kHelloOk);
  dialer_.Feed(stream(),
               "-ERR unknown command 'TIME', with args beginning with: \r\n"
               "-ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' \r\n"
               "-ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' \r\n+PONG\r\n");
  EXPECT_TRUE(link_->usable());
  EXPECT_FALSE(link_->clock().known());
}

TEST_F(LinkTest, TheGreetingMayComeInAnyPieces) {
  const std::string hello(kHelloOk);
  const std::string rest = GreetingRest();
  Open();
  stream()->handler.Connected();
  for (const char& byte : hello) dialer_.Feed(stream(), {&byte, 1});
  for (const char& byte : rest) dialer_.Feed(stream(), {&byte, 1});
  EXPECT_TRUE(link_->usable());
}

// ---- exchanges

TEST_F(LinkTest, ExchangesWaitForTheFirstConnectionAndAreMadeReadyThen) {
  Open();
  TestExchange& first = Send("a");
  TestExchange& second = Send("b");
  EXPECT_EQ(first.prepared, 0);
  EXPECT_EQ(link_->in_flight(), 2u);
  Greet(stream());
  EXPECT_EQ(first.prepared, 1);
  EXPECT_TRUE(first.clock_known);
  EXPECT_EQ(Commands(stream()->Take()),
            (std::vector<std::vector<std::string>>{{"ECHO", "a"}, {"ECHO", "b"}}));
  dialer_.Feed(stream(), "$1\r\na\r\n$1\r\nb\r\n");
  EXPECT_EQ(first.text, "a");
  EXPECT_EQ(second.text, "b");
  EXPECT_EQ(second.fate, Fate::kReplied);
  EXPECT_EQ(second.link, link_.get());
  EXPECT_EQ(link_->in_flight(), 0u);
}

TEST_F(LinkTest, PipelinedRepliesFindTheirExchangesHoweverTheyAreCut) {
  OpenUsable();
  const std::string replies = "$1\r\na\r\n:12\r\n*2\r\n+x\r\n:1\r\n$-1\r\n-ERR e\r\n";
  for (size_t cut = 1; cut < replies.size(); ++cut) {
    std::vector<TestExchange*> sent;
    for (int i = 0; i < 5; ++i) sent.push_back(&Send("x"));
    dialer_.Feed(stream(), std::string_view(replies).substr(0, cut));
    dialer_.Feed(stream(), std::string_view(replies).substr(cut));
    EXPECT_EQ(sent[0]->text, "a");
    EXPECT_EQ(sent[4]->text, "ERR e");
    for (const TestExchange* exchange : sent) {
      EXPECT_EQ(exchange->done, 1);
      EXPECT_EQ(exchange->fate, Fate::kReplied);
    }
  }
}

TEST_F(LinkTest, AfterItsDeadlineAnExchangeStillHearsItsReply) {
  OpenUsable();
  TestExchange& late = Send("late", Millis(20));
  TestExchange& other = Send("other", Millis(50));
  loop_.Advance(Millis(19));
  EXPECT_EQ(late.expired, 0);
  loop_.Advance(Millis(1));
  EXPECT_EQ(late.expired, 1);
  EXPECT_EQ(late.done, 0);
  EXPECT_EQ(link_->in_flight(), 2u);
  dialer_.Feed(stream(), "+one\r\n+two\r\n");
  EXPECT_EQ(late.done, 1);
  EXPECT_EQ(late.text, "one");
  EXPECT_EQ(late.fate, Fate::kReplied);
  EXPECT_EQ(other.text, "two");
  EXPECT_EQ(other.expired, 0);
  EXPECT_EQ(stats().timeouts, 1u);
  EXPECT_EQ(stats().late, 1u);
}

TEST_F(LinkTest, DeadlinesNeedNotCome) {
  OpenUsable();
  TestExchange& second = Send("second", Millis(40));
  TestExchange& first = Send("first", Millis(10));
  TestExchange& third = Send("third", Millis(60));
  loop_.Advance(Millis(10));
  EXPECT_EQ(first.expired, 1);
  EXPECT_EQ(second.expired, 0);
  loop_.Advance(Millis(30));
  EXPECT_EQ(second.expired, 1);
  EXPECT_EQ(third.expired, 0);
  loop_.Advance(Millis(20));
  EXPECT_EQ(third.expired, 1);
}

TEST_F(LinkTest, ALostConnectionTellsWhatMayHaveRunFromWhatDidNot) {
  OpenUsable();
  TestExchange& sent = Send("sent");
  stream()->Take();
  stream()->stuck = true;
  TestExchange& unsent = Send("unsent");
  stream()->handler.Closed("reset");
  EXPECT_EQ(sent.done, 1);
  EXPECT_EQ(sent.fate, Fate::kUnknown);
  EXPECT_EQ(sent.reason, Reason::kEngineDown);
  EXPECT_EQ(unsent.done, 1);
  EXPECT_EQ(unsent.fate, Fate::kNotRun);
  EXPECT_FALSE(link_->usable());
  EXPECT_EQ(changes_, (std::vector{true, false}));
  EXPECT_EQ(link_->Send(Make("x")), Reason::kEngineDown);
  loop_.Advance(Millis(10));
  Greet(stream());
  EXPECT_TRUE(link_->usable());
  EXPECT_EQ(stats().lost, 1u);
  EXPECT_EQ(stats().open_breakers, 0);
}

}  // namespace
}  // namespace penstock::engine::redis::by_hand
