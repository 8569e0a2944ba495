#include "engine/redis/sentinel.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/redis/single.h"
#include "engine/redis/testing/topology_fakes.h"

namespace penstock::engine::redis {
namespace {

using testing::At;
using testing::FakeExchange;
using testing::FakeLink;
using testing::FakeStream;
using testing::World;
using Kind = Redirect::Kind;

constexpr std::string_view kHello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n";
constexpr std::string_view kSubscribed = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
constexpr std::string_view kMaster = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
constexpr std::string_view kReplica = "*5\r\n$5\r\nslave\r\n$1\r\nm\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";
constexpr std::string_view kAskMaster =
    "*3\r\n$8\r\nSENTINEL\r\n$23\r\nget-master-addr-by-name\r\n$6\r\norders\r\n";

std::string Address(std::string_view host, std::string_view port) {
  return "*2\r\n$" + std::to_string(host.size()) + "\r\n" + std::string(host) + "\r\n$" +
         std::to_string(port.size()) + "\r\n" + std::string(port) + "\r\n";
}
std::string Switched(std::string_view name) {
  const std::string text = std::string(name) + " m1 1 m2 2";
  return ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$" + std::to_string(text.size()) + "\r\n" + text +
         "\r\n";
}

class Sentinel : public ::testing::Test {
 protected:
  Sentinel() {
    options_.seeds = {At("s1", 26379), At("s2", 26379), At("s3", 26379)};
    options_.master_name = "orders";
  }
  ~Sentinel() override { topology_.reset(); }

  void Open() { topology_ = std::make_unique<SentinelTopology>(world_.parts(), options_); }
  // The Sentinel that is being asked.
  FakeStream& Stream() {
    if (world_.dialer.streams.size() != 1) throw std::runtime_error("not one connection to a Sentinel");
    return *world_.dialer.streams.front();
  }
  // Greeted, and asked who the master is.
  void Greet() {
    Stream().handler.Connected();
    Stream().written.clear();
    Stream().Say(kHello);
    ASSERT_EQ(Stream().written, kAskMaster);
    Stream().written.clear();
  }
  // Until the Sentinel is asked for the master once more.
  void WaitForQuestion() {
    for (int i = 0; i < 100 && Stream().written != kAskMaster; ++i) world_.timer.Advance(Millis(10));
    ASSERT_EQ(Stream().written, kAskMaster);
    Stream().written.clear();
  }
  FakeLink& Link(std::string_view host, uint16_t port) {
    FakeLink* const link = world_.LinkTo(host, port);
    if (link == nullptr) throw std::runtime_error("no link to " + std::string(host));
    return *link;
  }
  // m1 is the master, and everything is in order.
  void Ready() {
    Open();
    Greet();
    Stream().Say(Address("m1", "1"));
    ASSERT_EQ(Stream().written, "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n");
    Stream().Say(kSubscribed);
    Stream().written.clear();
    EXPECT_EQ(topology_->LinkFor(0), nullptr) << "not believed before ROLE";
    Link("m1", 1).SetUsable(true);
    EXPECT_EQ(topology_->LinkFor(0), nullptr);
    EXPECT_EQ(Link("m1", 1).Oldest(), "*1\r\n$4\r\nROLE\r\n");
    Link("m1", 1).Answer(kMaster);
    ASSERT_EQ(topology_->LinkFor(0), &Link("m1", 1));
    ASSERT_EQ(topology_->trouble(), "");
  }
  FakeExchange* Sent(Micros wait = Millis(20)) {
    exchanges_.push_back(std::make_unique<FakeExchange>(Exchange::kNoSlot, world_.In(wait)));
    EXPECT_EQ(topology_->LinkFor(0)->Send(*exchanges_.back()), Reason::kNone);
    return exchanges_.back().get();
  }

  World world_;
  std::vector<std::unique_ptr<FakeExchange>> exchanges_;
  Options options_;
  std::unique_ptr<SentinelTopology> topology_;
};

TEST_F(Sentinel, TheNamedServerIsUsedOnceItSaysItIsTheMaster) {
  Ready();
  EXPECT_FALSE(topology_->has_slots());
  EXPECT_EQ(topology_->LinkFor(12345), topology_->LinkFor(Exchange::kNoSlot));
  EXPECT_EQ(topology_->Links().at(0).role, "master");
}

TEST_F(Sentinel, GreetsWithTheSentinelsOwnPassword) {
  options_.password = "of the servers";
  options_.sentinel_password = "secret";
  Open();
  Stream().handler.Connected();
  EXPECT_EQ(Stream().written,
            "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n");
}

TEST_F(Sentinel, ADeadSentinelIsLeftForTheNext) {
  Open();
  EXPECT_EQ(Stream().target.host, "s1");
  Stream().handler.Closed("connection refused");
  EXPECT_EQ(Stream().target.host, "s2");
  // Nobody answers there: the time-out leads on.
  Stream().handler.Connected();
  world_.timer.Advance(SentinelWatch::kTimeout);
  EXPECT_EQ(Stream().target.host, "s3");
  Greet();
  Stream().Say(Address("m1", "1"));
  EXPECT_NE(world_.LinkTo("m1", 1), nullptr);
}

TEST_F(Sentinel, ASentinelThatDoesNotKnowTheNameIsLeftToo) {
  Open();
  for (int i = 0; i < 3; ++i) {
    Greet();
    Stream().Say("*-1\r\n");
  }
  EXPECT_TRUE(world_.dialer.streams.empty());
  EXPECT_NE(topology_->trouble().find("knows no master named orders"), std::string_view::npos)
      << topology_->trouble();
  // And asked again a little later.
  world_.timer.Advance(SentinelTopology::kPollMin);
  Greet();
  Stream().Say(Address("m1", "1"));
  EXPECT_EQ(topology_->trouble(), "m1:1: connection refused");
}

TEST_F(Sentinel, WhatASentinelRefusesIsToldWithItsRemedy) {
  options_.seeds.resize(1);
  Open();
  Stream().handler.Connected();
  Stream().Say("-NOAUTH HELLO must be called with the client already authenticated\r\n");
  EXPECT_NE(topology_->trouble().find("sentinel_password"), std::string_view::npos) << topology_->trouble();
}

TEST_F(Sentinel, NonsenseIsNotBelieved) {
  options_.seeds.resize(1);
  for (const std::string& nonsense :
       {std::string("+OK\r\n"), Address("", "1"), Address("m1", "0"), Address("m1", "65536"),
        Address("m1", "x"), std::string("*1\r\n$2\r\nm1\r\n"), std::string("!\r\n"),
        std::string("*2\r\n*1\r\n$1\r\na\r\n$1\r\n1\r\n")}) {
    Open();
    Greet();
    Stream().Say(nonsense);
    EXPECT_TRUE(world_.dialer.streams.empty()) << nonsense;
    EXPECT_TRUE(world_.links.empty()) << nonsense;
    topology_.reset();
  }
}

TEST_F(Sentinel, AReplicaIsNotSentTo) {
  Open();
  Greet();
  Stream().Say(Address("m1", "1"));
  Stream().Say(kSubscribed);
  Link("m1", 1).SetUsable(true);
  Link("m1", 1).Answer(kReplica);
  EXPECT_EQ(topology_->LinkFor(0), nullptr);
  EXPECT_NE(topology_->trouble().find("replica"), std::string_view::npos);
  Stream().written.clear();
  WaitForQuestion();
  Stream().Say(Address("m1", "1"));
  EXPECT_EQ(Link("m1", 1).sent.size(), 1u) << "asked for its role again";
  Link("m1", 1).Answer(kMaster);
  EXPECT_NE(topology_->LinkFor(0), nullptr);
}

TEST_F(Sentinel, RoleIsAskedAtEveryConnectionAnew) {
  Ready();
  Link("m1", 1).Break();
  EXPECT_EQ(topology_->LinkFor(0), nullptr);
  EXPECT_NE(topology_->trouble(), "");
  Link("m1", 1).SetUsable(true);
  EXPECT_EQ(topology_->LinkFor(0), nullptr);
  Link("m1", 1).Answer(kReplica);
  EXPECT_EQ(topology_->LinkFor(0), nullptr);
  Link("m1", 1).SetUsable(false);
  Link("m1", 1).SetUsable(true);
  Link("m1", 1).Answer(kMaster);
  EXPECT_NE(topology_->LinkFor(0), nullptr);
}

TEST_F(Sentinel, RoleThatIsForbiddenIsToldWithItsRemedy) {
  Open();
  Greet();
  Stream().Say(Address("m1", "1"));
  Link("m1", 1).SetUsable(true);
  Link("m1", 1).Answer("-NOPERM this user has no permissions to run the 'role' command\r\n");
  EXPECT_NE(topology_->trouble().find("+role"), std::string_view::npos) << topology_->trouble();
}

TEST_F(Sentinel, AFailoverIsFollowed) {
  Ready();
  FakeExchange* const lost = Sent();
  Link("m1", 1).Break();
  EXPECT_EQ(lost->fate, Fate::kUnknown) << "what was sent is not sent again";
  world_.timer.Advance(SentinelTopology::kPollMin);
  ASSERT_EQ(Stream().written, kAskMaster);
  Stream().Say(Address("m2", "2"));
  Link("m2", 2).SetUsable(true);
  Link("m2", 2).Answer(kMaster);
  EXPECT_EQ(topology_->LinkFor(0), &Link("m2", 2));
  world_.timer.Advance(Micros{0});
  EXPECT_EQ(world_.LinkTo("m1", 1), nullptr) << "the link to the old master is closed";
  EXPECT_EQ(world_.counters.changes.load(), 2u);
}

TEST_F(Sentinel, APublishedSwitchIsAskedAfterAtOnce) {
  Ready();
  Stream().Say(Switched("other"));
  Stream().Say(Switched("orders2"));
  EXPECT_EQ(Stream().written, "");
  FakeExchange* const flying = Sent(Seconds(2));
  Stream().Say(Switched("orders"));
  EXPECT_EQ(Stream().written, kAskMaster);
  // A switch between a question and its answer: asked once more.
  Stream().Say(Switched("orders"));
  Stream().Say(Address("m1", "1"));
  EXPECT_EQ(Stream().written, std::string(kAskMaster) + std::string(kAskMaster));
  Stream().Say(Address("m2", "2"));
  EXPECT_EQ(topology_->LinkFor(0), nullptr);
  Link("m2", 2).SetUsable(true);
  Link("m2", 2).Answer(kMaster);
  EXPECT_EQ(topology_->LinkFor(0), &Link("m2", 2));
  // The old master still answers what it got before.
  world_.timer.Advance(Millis(100));
  Link("m1", 1).Answer("+OK\r\n");
  EXPECT_EQ(flying->fate, Fate::kReplied);
  world_.timer.Advance(Millis(100));
  EXPECT_EQ(world_.LinkTo("m1", 1), nullptr);
}

TEST_F(Sentinel, AnOldMasterThatNeverAnswersIsNotWaitedForLong) {
  Ready();
  FakeExchange* const flying = Sent(Seconds(20));
  Stream().Say(Switched("orders"));
  Stream().Say(Address("m2", "2"));
  world_.timer.Advance(RetiredLinks::kLongest + Millis(50));
  EXPECT_EQ(flying->fate, Fate::kUnknown);
  EXPECT_EQ(world_.LinkTo("m1", 1), nullptr);
}

TEST_F(Sentinel, ReadOnlyIsSentToTheNewMaster) {
  Ready();
  FakeExchange* const exchange = Sent();
  FakeExchange* const late = Sent(Millis(2));
  Link("m1", 1).Redirect(Kind::kReadOnly);
  Link("m1", 1).Redirect(Kind::kReadOnly);
  EXPECT_EQ(topology_->LinkFor(0), nullptr);
  world_.timer.Advance(Millis(2));
  EXPECT_EQ(late->fate, Fate::kNotRun) << "its deadline was sooner";
  Stream().Say(Switched("orders"));
  Stream().Say(Address("m2", "2"));
  Link("m2", 2).SetUsable(true);
  Link("m2", 2).Answer(kMaster);
  ASSERT_EQ(Link("m2", 2).sent.size(), 1u);
  Link("m2", 2).Answer("+OK\r\n");
  EXPECT_EQ(exchange->fate, Fate::kReplied);
  EXPECT_EQ(world_.counters.read_only.load(), 2u);
}

TEST_F(Sentinel, ReadOnlyIsBounded) {
  Ready();
  FakeExchange* const exchange = Sent(Seconds(60));
  for (int i = 0; i < 100 && !exchange->fate; ++i) {
    Link("m1", 1).Redirect(Kind::kReadOnly);
    WaitForQuestion();
    Stream().Say(Address("m1", "1"));
    if (!Link("m1", 1).sent.empty()) Link("m1", 1).Answer(kMaster);  // it cannot make up its mind
  }
  EXPECT_EQ(exchange->fate, Fate::kNotRun);
  EXPECT_EQ(world_.counters.read_only.load(), static_cast<uint64_t>(kMaxRedirects) + 1);
}

TEST_F(Sentinel, AnOldMasterThatIsCutOffWithUsIsLeftAtTheNextPoll) {
  Ready();
  world_.timer.Advance(SentinelTopology::kPollQuiet);
  ASSERT_EQ(Stream().written, kAskMaster);
  Stream().Say(Address("m2", "2"));
  EXPECT_NE(world_.LinkTo("m2", 2), nullptr);
}

TEST_F(Sentinel, TheMasterIsUsedWhileEverySentinelIsGone) {
  Ready();
  Stream().handler.Closed("reset");
  for (int i = 0; i < 20; ++i) {
    world_.timer.Advance(SentinelTopology::kPollQuiet);
    while (!world_.dialer.streams.empty()) Stream().handler.Closed("refused");
  }
  EXPECT_NE(topology_->LinkFor(0), nullptr);
  EXPECT_GE(world_.counters.failed_refreshes.load(), 20u);
}

TEST_F(Sentinel, SubscribingMayBeForbidden) {
  Open();
  Greet();
  Stream().Say(Address("m1", "1"));
  Stream().Say("-NOPERM no channel\r\n");
  Stream().written.clear();
  world_.timer.Advance(SentinelTopology::kPollMin);
  EXPECT_EQ(Stream().written, kAskMaster) << "the connection is kept for questions";
}

TEST_F(Sentinel, WhatWaitsIsDoneWhenItEnds) {
  Ready();
  FakeExchange* const parked = Sent();
  FakeExchange* const flying = Sent();
  Link("m1", 1).Redirect(Kind::kReadOnly);
  ServerLink* found = &Link("m1", 1);
  flying->then = [&, going = topology_.get()] { found = going->LinkFor(0); };
  topology_.reset();
  EXPECT_EQ(parked->fate, Fate::kNotRun);
  EXPECT_EQ(flying->fate, Fate::kUnknown);
  EXPECT_EQ(found, nullptr);
  EXPECT_TRUE(world_.dialer.streams.empty());
  EXPECT_EQ(world_.timer.pending(), 0u);
}

// --- One server ---

TEST(Single, IsThereFromTheStart) {
  World world;
  Options options;
  options.seeds = {At("r", 6379)};
  SingleTopology topology(world.parts(), options);
  EXPECT_EQ(topology.LinkFor(77), world.LinkTo("r", 6379));
  EXPECT_NE(topology.trouble(), "");
  world.LinkTo("r", 6379)->SetUsable(true);
  EXPECT_EQ(topology.trouble(), "");
  EXPECT_FALSE(topology.has_slots());
  EXPECT_EQ(topology.Links().at(0).target, "r:6379");
}

TEST(Single, AReplicaBehindTheAddressIsCalledAnewButNotAllTheTime) {
  World world;
  Options options;
  options.seeds = {At("r", 6379)};
  FakeExchange first(-1, world.In(Seconds(9)));
  FakeExchange second(-1, world.In(Seconds(9)));
  FakeExchange third(-1, world.In(Seconds(9)));
  SingleTopology topology(world.parts(), options);
  FakeLink* const link = world.LinkTo("r", 6379);
  link->SetUsable(true);
  world.timer.Advance(SingleTopology::kAgain);
  for (FakeExchange* exchange : {&first, &second, &third}) link->Send(*exchange);
  link->Redirect(Kind::kReadOnly);
  EXPECT_EQ(first.fate, Fate::kNotRun);
  EXPECT_EQ(world.opened, 2);
  link->Redirect(Kind::kReadOnly);
  EXPECT_EQ(world.opened, 2);
  EXPECT_NE(topology.LinkFor(0), link);
  static_cast<FakeLink*>(topology.LinkFor(0))->SetUsable(true);
  EXPECT_EQ(topology.trouble(), "");
  link->Answer("+OK\r\n");
  EXPECT_EQ(third.fate, Fate::kReplied);
  world.timer.Advance(Seconds(1));
  EXPECT_EQ(world.links.size(), 1u);
}

TEST(Single, SaysThatTheServerBelongsToACluster) {
  World world;
  Options options;
  options.seeds = {At("r", 6379)};
  FakeExchange exchange(-1, world.In(Seconds(9)));
  SingleTopology topology(world.parts(), options);
  world.LinkTo("r", 6379)->SetUsable(true);
  topology.LinkFor(0)->Send(exchange);
  world.LinkTo("r", 6379)->Redirect(Kind::kMoved, 5, "other", 1);
  EXPECT_EQ(exchange.fate, Fate::kNotRun);
  EXPECT_NE(topology.trouble().find("redis+cluster://"), std::string_view::npos);
  EXPECT_EQ(world.links.size(), 1u);
}

}  // namespace
}  // namespace penstock::engine::redis
