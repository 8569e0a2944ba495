// What a link does when something fails: refusals in the midst of a pipeline, lost and frozen connections, the breaker,
// and owners that do what they like inside its calls.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "engine/redis/testing/link_fixture.h"

namespace penstock::engine::redis::by_hand {
namespace {

// ---- refusals

TEST_F(LinkTest, AMissingScriptIsLoadedOnceAndNobodyElseIsDisturbed) {
  OpenUsable();
  stream()->Take();
  TestExchange& a = SendScript("a");
  TestExchange& b = Send("b");
  TestExchange& c = SendScript("c");
  stream()->Take();
  dialer_.Feed(stream(), "-NOSCRIPT No matching script.\r\n+b\r\n-NOSCRIPT No matching script.\r\n");
  EXPECT_EQ(b.text, "b");
  EXPECT_EQ(a.done + c.done, 0);
  const auto again = Commands(stream()->Take());
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0], (std::vector<std::string>{"SCRIPT", "LOAD", "return 1"}));
  EXPECT_EQ(again[1], (std::vector<std::string>{"EVALSHA", kSha1, "0", "a"}));
  EXPECT_EQ(again[2], (std::vector<std::string>{"EVALSHA", kSha1, "0", "c"}));
  TestExchange& d = Send("d");
  dialer_.Feed(stream(), Sha(kSha1) + "+A\r\n+C\r\n+D\r\n");
  EXPECT_EQ(a.text, "A");
  EXPECT_EQ(c.text, "C");
  EXPECT_EQ(d.text, "D");
  EXPECT_EQ(a.done + b.done + c.done + d.done, 4);
  EXPECT_EQ(a.prepared, 1);
  EXPECT_EQ(link_->in_flight(), 0u);
  EXPECT_EQ(stats().scripts_missing, 2u);
}

TEST_F(LinkTest, AScriptThatIsMissingAgainAndAgainIsGivenUp) {
  OpenUsable();
  TestExchange& a = SendScript("a");
  dialer_.Feed(stream(), "-NOSCRIPT x\r\n");
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(a.done, 0);
    dialer_.Feed(stream(),
                 "-NOPERM User pen has no permissions to run the 'script|load' command\r\n-NOSCRIPT x\r\n");
  }
  EXPECT_EQ(a.done, 1);
  EXPECT_EQ(a.fate, Fate::kNotRun);
  EXPECT_NE(link_->last_error().find("+script|load"), std::string::npos) << link_->last_error();
}

TEST_F(LinkTest, AfterItsDeadlineNothingIsSentAgain) {
  OpenUsable();
  TestExchange& a = SendScript("a");
  TestExchange& b = Send("b");
  loop_.Advance(Millis(20));
  stream()->Take();
  dialer_.Feed(stream(), "-NOSCRIPT x\r\n-MOVED 1 a:1\r\n");
  EXPECT_EQ(stream()->Take(), "");
  EXPECT_TRUE(redirected_.empty());
  for (const TestExchange* exchange : {&a, &b}) {
    EXPECT_EQ(exchange->expired, 1);
    EXPECT_EQ(exchange->done, 1);
    EXPECT_EQ(exchange->fate, Fate::kNotRun);
    EXPECT_EQ(exchange->reason, Reason::kTimeout);
  }
}

TEST_F(LinkTest, RedirectsGoToTheOwnerAndOthersAreUntouched) {
  OpenUsable();
  std::vector<TestExchange*> sent;
  for (int i = 0; i < 7; ++i) sent.push_back(&Send("x"));
  dialer_.Feed(stream(),
               "+0\r\n-MOVED 3999 10.0.0.2:6381\r\n+2\r\n-ASK 3999 :7000\r\n-READONLY You can't write\r\n"
               "-CLUSTERDOWN Hash slot not served\r\n+6\r\n");
  ASSERT_EQ(redirected_.size(), 4u);
  EXPECT_EQ(redirected_[0].first, sent[1]);
  EXPECT_EQ(redirected_[0].second.kind, Redirect::Kind::kMoved);
  EXPECT_EQ(redirected_[0].second.slot, 3999);
  EXPECT_EQ(redirected_[0].second.host, "10.0.0.2");
  EXPECT_EQ(redirected_[0].second.port, 6381);
  EXPECT_EQ(redirected_[1].second.kind, Redirect::Kind::kAsk);
  EXPECT_EQ(redirected_[1].second.host, "");
  EXPECT_EQ(redirected_[2].second.kind, Redirect::Kind::kReadOnly);
  EXPECT_EQ(redirected_[3].second.kind, Redirect::Kind::kClusterDown);
  for (const size_t i : {0u, 2u, 6u}) EXPECT_EQ(sent[i]->fate, Fate::kReplied);
  for (const size_t i : {1u, 3u, 4u, 5u}) EXPECT_EQ(sent[i]->done, 0);
  EXPECT_EQ(link_->in_flight(), 0u);
}

TEST_F(LinkTest, ARedirectThatCannotBeReadIsAnEndWithoutARun) {
  OpenUsable();
  TestExchange& a = Send("a");
  dialer_.Feed(stream(), "-MOVED somewhere\r\n");
  EXPECT_EQ(a.done, 1);
  EXPECT_EQ(a.fate, Fate::kNotRun);
}

TEST_F(LinkTest, AskingGoesBeforeItsCommand) {
  OpenUsable();
  stream()->Take();
  TestExchange& a = Make("a");
  EXPECT_EQ(link_->SendAsking(a), Reason::kNone);
  EXPECT_EQ(Commands(stream()->Take()), (std::vector<std::vector<std::string>>{{"ASKING"}, {"ECHO", "a"}}));
  dialer_.Feed(stream(), "+OK\r\n+a\r\n");
  EXPECT_EQ(a.text, "a");
}

TEST_F(LinkTest, AServerThatRefusesWritesIsNoReasonToOpenTheBreaker) {
  OpenUsable();
  for (int i = 0; i < 20; ++i) {
    TestExchange& a = Send("a");
    dialer_.Feed(stream(), "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    EXPECT_EQ(a.fate, Fate::kNotRun);
    EXPECT_EQ(a.reason, Reason::kEngineDown);
    EXPECT_TRUE(a.text.starts_with("OOM"));
  }
  EXPECT_TRUE(link_->usable());
  EXPECT_NE(link_->last_error().find("noeviction"), std::string::npos);
}

TEST_F(LinkTest, ABusyServerOpensTheBreakerAfterSomeAndIsTriedAnew) {
  OpenUsable();
  std::vector<TestExchange*> sent;
  for (int i = 0; i < 6; ++i) sent.push_back(&Send("x"));
  FakeStream* const old = stream();
  dialer_.Feed(old, "-BUSY a\r\n-BUSY b\r\n-BUSY c\r\n-BUSY d\r\n");
  EXPECT_TRUE(link_->usable());
  dialer_.Feed(old, "-BUSY e\r\n");
  EXPECT_FALSE(link_->usable());
  EXPECT_EQ(link_->Send(Make("x")), Reason::kEngineDown);
  EXPECT_EQ(changes_, (std::vector{true, false}));
  dialer_.Feed(old, "+f\r\n");  // what was on its way is still heard
  EXPECT_EQ(sent[5]->text, "f");
  EXPECT_FALSE(dialer_.Has(old));
  loop_.Advance(Millis(10));
  ASSERT_EQ(dialer_.streams.size(), 1u);
  Greet(stream());
  EXPECT_TRUE(link_->usable());
}

// ---- lost and frozen

TEST_F(LinkTest, AFullLinkRefusesAtOnce) {
  options_.max_in_flight = 3;
  OpenUsable();
  for (int i = 0; i < 3; ++i) Send("x");
  TestExchange& more = Make("more");
  EXPECT_EQ(link_->Send(more), Reason::kOverload);
  EXPECT_EQ(more.done + more.expired, 0);
  dialer_.Feed(stream(), "+x\r\n");
  EXPECT_EQ(link_->Send(more), Reason::kNone);
  EXPECT_EQ(stats().refused_full, 1u);
}

TEST_F(LinkTest, AFailedFirstAttemptEndsTheWaiting) {
  Open();
  TestExchange& waiting = Send("a");
  stream()->handler.Closed("cannot connect: Connection refused");
  EXPECT_EQ(waiting.done, 1);
  EXPECT_EQ(waiting.fate, Fate::kNotRun);
  EXPECT_EQ(waiting.prepared, 0);
  EXPECT_EQ(changes_, std::vector{false});
  EXPECT_NE(link_->last_error().find("refused"), std::string::npos);
  EXPECT_EQ(link_->Send(Make("b")), Reason::kEngineDown);
}

TEST_F(LinkTest, WhoWaitsForTheFirstConnectionWaitsNoLongerThanItsDeadline) {
  Open();
  TestExchange& waiting = Send("a");
  loop_.Advance(Millis(20));
  EXPECT_EQ(waiting.done, 1);
  EXPECT_EQ(waiting.fate, Fate::kNotRun);
  EXPECT_EQ(waiting.reason, Reason::kTimeout);
  Greet(stream());
  EXPECT_EQ(stream()->Take(), "");
}

TEST_F(LinkTest, AFrozenServersLateRepliesAreHeardAndTheConnectionIsTakenBack) {
  OpenUsable();
  FakeStream* const old = stream();
  Freeze();
  EXPECT_EQ(link_->Send(Make("x")), Reason::kEngineDown);
  EXPECT_EQ(link_->in_flight(), 5u);
  loop_.Advance(Millis(10));
  ASSERT_EQ(dialer_.streams.size(), 2u);  // an attempt beside it
  dialer_.Feed(old, "+1\r\n+2\r\n+3\r\n+4\r\n");
  EXPECT_FALSE(link_->usable());
  dialer_.Feed(old, "+5\r\n");
  EXPECT_TRUE(link_->usable());
  EXPECT_EQ(dialer_.streams, std::vector{old});
  for (const TestExchange& exchange : exchanges_) {
    if (exchange.prepared == 0) continue;
    EXPECT_EQ(exchange.done, 1);
    EXPECT_EQ(exchange.fate, Fate::kReplied);
  }
  TestExchange& next = Send("next");
  dialer_.Feed(old, "+next\r\n");
  EXPECT_EQ(next.text, "next");
  EXPECT_EQ(changes_, (std::vector{true, false, true}));
}

TEST_F(LinkTest, ANewConnectionTakesOverWhileTheFrozenOneIsStillHeard) {
  OpenUsable();
  FakeStream* const old = stream();
  Freeze();
  loop_.Advance(Millis(10));
  FakeStream* const fresh = stream();
  ASSERT_NE(fresh, old);
  Greet(fresh);
  EXPECT_TRUE(link_->usable());
  TestExchange& next = Send("next");
  dialer_.Feed(fresh, "+next\r\n");
  EXPECT_EQ(next.text, "next");
  dialer_.Feed(old, "+1\r\n+2\r\n");
  EXPECT_EQ(exchanges_[1].text, "2");
  loop_.Advance(Seconds(5));
  EXPECT_FALSE(dialer_.Has(old));
  EXPECT_EQ(exchanges_[2].fate, Fate::kUnknown);
  EXPECT_EQ(exchanges_[2].reason, Reason::kTimeout);
  EXPECT_EQ(exchanges_[2].done, 1);
  EXPECT_TRUE(link_->usable());
  EXPECT_EQ(stats().given_up, 1u);
}

TEST_F(LinkTest, AttemptsThatAreNotAnsweredAreGivenUpAndMadeAgainInTime) {
  OpenUsable();
  Freeze();
  const int dialled = dialer_.dialled;
  SteadyTime last = clock_.Steady();
  int seen = dialled;
  // Black hole: nothing answers. Never is there a second without a new attempt.
  for (int i = 0; i < 10'000; ++i) {
    loop_.Advance(Millis(1));
    if (dialer_.dialled == seen) continue;
    seen = dialer_.dialled;
    EXPECT_LT((clock_.Steady() - last).count, Millis(520).count);
    last = clock_.Steady();
  }
  EXPECT_GT(seen, dialled + 10);
  EXPECT_LT(seen, dialled + 40);
  EXPECT_LE(dialer_.streams.size(), 1u);
  EXPECT_NE(link_->last_error().find("no connection within 450 ms"), std::string::npos)
      << link_->last_error();
  // Connected, but the greeting is not answered: the same. From the next attempt on, as the loop above may have ended
  // in the pause between two.
  while (dialer_.dialled == seen) loop_.Advance(Millis(1));
  seen = dialer_.dialled;
  stream()->handler.Connected();
  loop_.Advance(Millis(440));
  EXPECT_EQ(dialer_.dialled, seen);
  loop_.Advance(Millis(80));
  EXPECT_EQ(dialer_.dialled, seen + 1);
  EXPECT_NE(link_->last_error().find("connected, but not answered"), std::string::npos)
      << link_->last_error();
}

TEST_F(LinkTest, RefusedAttemptsComeWithGrowingDelaysAndWithoutEnd) {
  OpenUsable();
  stream()->handler.Closed("reset");
  std::vector<int64_t> delays;
  for (int i = 0; i < 20; ++i) {
    const SteadyTime before = clock_.Steady();
    while (dialer_.streams.empty()) loop_.Advance(Millis(1));
    delays.push_back((clock_.Steady() - before).count / 1'000);
    stream()->handler.Closed("refused");
  }
  EXPECT_LE(delays[0], 10);
  EXPECT_GT(delays[19], 240);
  for (const int64_t delay : delays) EXPECT_LE(delay, 501);
  EXPECT_EQ(stats().failed_connects, 20u);
}

TEST_F(LinkTest, TenThousandInFlightWhenTheServerFreezesAreBoundedAndEnd) {
  OpenUsable();
  for (int i = 0; i < 10'000; ++i) Send("x");
  loop_.Advance(Millis(20));
  for (const TestExchange& exchange : exchanges_) EXPECT_EQ(exchange.expired, 1);
  size_t refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    loop_.Advance(Micros{500});
    if (link_->Send(Make("more")) == Reason::kEngineDown) ++refused;
  }
  EXPECT_EQ(refused, 10'000u);
  EXPECT_EQ(link_->in_flight(), 0u);
  EXPECT_LE(dialer_.streams.size(), 1u);
  for (size_t i = 0; i < 10'000; ++i) EXPECT_EQ(exchanges_[i].done, 1);
}

TEST_F(LinkTest, ALinkThatFreezesTwiceKeepsOneOldConnection) {
  OpenUsable();
  Freeze();
  loop_.Advance(Millis(10));
  Greet(stream());
  Freeze();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(exchanges_[i].fate, Fate::kUnknown);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(exchanges_[i].done, 1);
  EXPECT_EQ(link_->in_flight(), 5u);
  loop_.Advance(Millis(600));
  EXPECT_LE(dialer_.streams.size(), 2u);
}

TEST_F(LinkTest, BytesThatAreNoReplyEndTheConnection) {
  OpenUsable();
  TestExchange& a = Send("a");
  dialer_.Feed(stream(), "HTTP/1.1 400 Bad Request\r\n");
  EXPECT_EQ(a.fate, Fate::kUnknown);
  EXPECT_NE(link_->last_error().find("not RESP"), std::string::npos) << link_->last_error();
  EXPECT_TRUE(dialer_.streams.empty());
}

TEST_F(LinkTest, AWordThatNobodyAskedForEndsTheConnectionWithIt) {
  OpenUsable();
  dialer_.Feed(stream(), "-ERR max number of clients reached\r\n");
  EXPECT_FALSE(link_->usable());
  EXPECT_NE(link_->last_error().find("maxclients"), std::string::npos) << link_->last_error();
}

// ---- inside its calls

TEST_F(LinkTest, DoneMaySendAgain) {
  OpenUsable();
  TestExchange& first = Send("a");
  TestExchange* second = nullptr;
  first.on_done = [&] { second = &Send("b"); };
  TestExchange& third = Send("c");
  dialer_.Feed(stream(), "+a\r\n+c\r\n+b\r\n");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->text, "b");
  EXPECT_EQ(third.text, "c");
}

TEST_F(LinkTest, WhoSendsAgainWhenTheConnectionIsLostIsRefused) {
  OpenUsable();
  Reason again = Reason::kNone;
  TestExchange& first = Send("a");
  first.on_done = [&] { again = link_->Send(Make("b")); };
  Send("c");
  stream()->handler.Closed("reset");
  EXPECT_EQ(again, Reason::kEngineDown);
}

TEST_F(LinkTest, TheLinkMayBeDestroyedInsideDoneOfAReply) {
  OpenUsable();
  for (int i = 0; i < 4; ++i) Send("x");
  exchanges_[1].on_done = [&] { link_.reset(); };
  dialer_.Feed(stream(), "+0\r\n+1\r\n+2\r\n+3\r\n");
  for (const TestExchange& exchange : exchanges_) EXPECT_EQ(exchange.done, 1);
  EXPECT_EQ(exchanges_[1].fate, Fate::kReplied);
  EXPECT_EQ(exchanges_[2].fate, Fate::kUnknown);
  EXPECT_TRUE(dialer_.streams.empty());
  EXPECT_EQ(loop_.timers(), 0u);
}

TEST_F(LinkTest, TheLinkMayBeDestroyedInsideDoneOfALoss) {
  OpenUsable();
  for (int i = 0; i < 4; ++i) Send("x");
  exchanges_[1].on_done = [&] { link_.reset(); };
  stream()->handler.Closed("reset");
  for (const TestExchange& exchange : exchanges_) EXPECT_EQ(exchange.done, 1);
  EXPECT_EQ(loop_.timers(), 0u);
}

TEST_F(LinkTest, TheLinkMayBeDestroyedInsideExpired) {
  OpenUsable();
  for (int i = 0; i < 8; ++i) Send("x");
  exchanges_[2].on_expired = [&] { link_.reset(); };
  loop_.Advance(Millis(20));
  for (const TestExchange& exchange : exchanges_) EXPECT_EQ(exchange.done, 1);
  EXPECT_EQ(exchanges_[2].expired, 1);
  EXPECT_EQ(exchanges_[3].expired, 0);
  EXPECT_EQ(loop_.timers(), 0u);
  EXPECT_EQ(stats().links, 0);
  EXPECT_EQ(stats().open_breakers, 0);
}

TEST_F(LinkTest, TheLinkMayBeDestroyedInsideDoneOfOneThatWaits) {
  Open();
  for (int i = 0; i < 3; ++i) Send("x");
  exchanges_[1].on_done = [&] { link_.reset(); };
  stream()->handler.Closed("refused");
  for (const TestExchange& exchange : exchanges_) EXPECT_EQ(exchange.done, 1);
  EXPECT_TRUE(dialer_.streams.empty());
  EXPECT_EQ(loop_.timers(), 0u);
}

TEST_F(LinkTest, ADestroyedLinkTellsEveryExchange) {
  OpenUsable();
  TestExchange& sent = Send("a");
  stream()->Take();
  stream()->stuck = true;
  TestExchange& unsent = Send("b");
  Reason again = Reason::kNone;
  ServerLink* const link = link_.get();
  sent.on_done = [&] { again = link->Send(Make("c")); };
  link_.reset();
  EXPECT_EQ(again, Reason::kEngineDown);
  EXPECT_EQ(sent.fate, Fate::kUnknown);
  EXPECT_EQ(unsent.fate, Fate::kNotRun);
  EXPECT_EQ(unsent.done, 1);
}

// ---- the steady state, and chance

TEST_F(LinkTest, ATimerIsNotSetForEveryExchange) {
  OpenUsable();
  const size_t before = loop_.scheduled;
  for (int i = 0; i < 10'000; ++i) {
    Send("x");
    dialer_.Feed(stream(), "+x\r\n");
    exchanges_.clear();
    loop_.Advance(Micros{20});
  }
  EXPECT_LT(loop_.scheduled - before, 30u);  // 200 ms of time-outs of 20 ms
}

// Whatever happens in whatever order: every exchange that was taken gets one Done, at most one Expired before it, and
// never an Expired after it.
TEST_F(LinkTest, NothingIsLostWhateverHappens) {
  Random random(TestSeed());
  options_.max_in_flight = 40;
  Open();
  std::vector<TestExchange*> taken;
  size_t refused = 0;
  on_redirected_ = [&](Exchange& exchange) {
    Reply reply;
    static_cast<TestExchange&>(exchange).Done(reply);
  };
  constexpr std::string_view kReplies[] = {"+ok\r\n",         "-NOSCRIPT x\r\n", "-MOVED 1 h:1\r\n",
                                           "-BUSY x\r\n",     "-ERR other\r\n",  "*2\r\n:1\r\n+x\r\n",
                                           "-OOM x\r\n",      "$1\r\nx\r\n",     "-LOADING x\r\n",
                                           "-READONLY x\r\n", "+ok\r\n",         "+ok\r\n"};
  for (int step = 0; step < 50'000; ++step) {
    FakeStream* const any =
        dialer_.streams.empty() ? nullptr : dialer_.streams[random.Below(dialer_.streams.size())];
    switch (random.Below(8)) {
      case 0:
      case 1:
      case 2: {
        TestExchange& next = Make("x", Millis(random.Between(1, 30)));
        if (random.Below(2) == 0) next.script_ = kScripts.data();
        const Reason reason = random.Below(9) == 0 ? link_->SendAsking(next) : link_->Send(next);
        if (reason == Reason::kNone) {
          taken.push_back(&next);
        } else {
          ++refused;
          EXPECT_EQ(next.done, 0);
        }
        break;
      }
      case 3:
      case 4:
        if (any != nullptr && link_->usable()) dialer_.Feed(any, kReplies[random.Below(std::size(kReplies))]);
        break;
      case 5:
        loop_.Advance(Micros{static_cast<int64_t>(random.Below(random.Below(50) == 0 ? 2'000'000 : 4'000))});
        break;
      case 6:
        if (any != nullptr && !link_->usable()) Greet(any);
        break;
      case 7:
        if (any != nullptr && random.Below(20) == 0) any->handler.Closed("lost");
        break;
    }
  }
  link_.reset();
  EXPECT_GT(taken.size(), 1'000u);
  EXPECT_GT(refused, 500u);
  for (const TestExchange* exchange : taken) {
    EXPECT_EQ(exchange->done, 1);
    EXPECT_LE(exchange->expired, 1);
  }
  EXPECT_EQ(loop_.timers(), 0u);
}

}  // namespace
}  // namespace penstock::engine::redis::by_hand
