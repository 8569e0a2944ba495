#include "engine/redis/cluster.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/redis/testing/topology_fakes.h"

namespace penstock::engine::redis {
namespace {

using testing::At;
using testing::FakeExchange;
using testing::FakeLink;
using testing::World;
using Kind = Redirect::Kind;

std::string Node(std::string_view host, int port) {
  return "*3\r\n$" + std::to_string(host.size()) + "\r\n" + std::string(host) +
         "\r\n:" + std::to_string(port) + "\r\n$2\r\nid\r\n";
}
std::string Range(int first, int last, const std::vector<std::string>& nodes) {
  std::string out = "*" + std::to_string(2 + nodes.size()) + "\r\n:" + std::to_string(first) +
                    "\r\n:" + std::to_string(last) + "\r\n";
  for (const std::string& node : nodes) out += node;
  return out;
}
std::string Map(const std::vector<std::string>& ranges) {
  std::string out = "*" + std::to_string(ranges.size()) + "\r\n";
  for (const std::string& range : ranges) out += range;
  return out;
}
// Two masters, a replica each.
std::string TwoMasters() {
  return Map(
      {Range(0, 8191, {Node("a", 1), Node("b", 2)}), Range(8192, 16383, {Node("c", 3), Node("d", 4)})});
}

class Cluster : public ::testing::Test {
 protected:
  Cluster() { options_.seeds = {At("a", 1), At("s", 9)}; }
  ~Cluster() override { topology_.reset(); }

  void Open() { topology_ = std::make_unique<ClusterTopology>(world_.parts(), options_); }
  // Open, and the first seed gives the map.
  void Ready() {
    Open();
    Link("a", 1).SetUsable(true);
    Link("a", 1).Answer(TwoMasters());
    LinkAt(8192).SetUsable(true);
    Settle();
    ASSERT_EQ(topology_->trouble(), "");
  }
  FakeLink& Link(std::string_view host, uint16_t port) {
    FakeLink* const link = world_.LinkTo(host, port);
    if (link == nullptr) throw std::runtime_error("no link to " + std::string(host));
    return *link;
  }
  FakeLink& LinkAt(int32_t slot) {
    ServerLink* const link = topology_->LinkFor(slot);
    if (link == nullptr) throw std::runtime_error("no link for the slot");
    return static_cast<FakeLink&>(*link);
  }
  FakeExchange* Sent(int32_t slot, Micros wait = Millis(20)) {
    exchanges_.push_back(std::make_unique<FakeExchange>(slot, world_.In(wait)));
    EXPECT_EQ(LinkAt(slot).Send(*exchanges_.back()), Reason::kNone);
    return exchanges_.back().get();
  }
  // Every question for the map is answered until nobody asks any more.
  void Settle() {
    for (int i = 0; i < 5; ++i) {
      for (FakeLink* link : std::vector<FakeLink*>(world_.links)) {
        while (!link->sent.empty()) link->Answer(TwoMasters());
      }
      world_.timer.Advance(Seconds(1));
    }
    for (FakeLink* link : world_.links) ASSERT_TRUE(link->sent.empty());
  }

  World world_;
  std::vector<std::unique_ptr<FakeExchange>> exchanges_;
  Options options_;
  std::unique_ptr<ClusterTopology> topology_;
};

TEST_F(Cluster, AsksTwoSeedsAndTakesTheFirstMap) {
  Open();
  EXPECT_EQ(topology_->LinkFor(5), nullptr);
  EXPECT_NE(topology_->trouble(), "");
  EXPECT_EQ(Link("a", 1).Oldest(), "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
  EXPECT_EQ(Link("s", 9).sent.size(), 1u);
  Link("s", 9).SetUsable(true);
  Link("s", 9).Answer(TwoMasters());
  EXPECT_EQ(LinkAt(0).target().Text(), "a:1");
  EXPECT_EQ(LinkAt(8191).target().Text(), "a:1");
  EXPECT_EQ(LinkAt(8192).target().Text(), "c:3");
  EXPECT_EQ(LinkAt(16383).target().Text(), "c:3");
  EXPECT_EQ(topology_->LinkFor(16384), nullptr);
  EXPECT_EQ(world_.LinkTo("b", 2), nullptr) << "a replica is not called";
  // The other seed's answer of the same round changes nothing any more.
  Link("a", 1).SetUsable(true);
  Link("a", 1).Answer(Map({Range(0, 16383, {Node("x", 1)})}));
  EXPECT_EQ(LinkAt(0).target().Text(), "a:1");
  EXPECT_TRUE(topology_->has_slots());
}

TEST_F(Cluster, ALinkIsMadeWhenItIsFirstNeeded) {
  Open();
  Link("a", 1).SetUsable(true);
  Link("a", 1).Answer(TwoMasters());
  EXPECT_EQ(world_.LinkTo("c", 3), nullptr);
  LinkAt(9000);
  EXPECT_NE(world_.LinkTo("c", 3), nullptr);
  EXPECT_EQ(&LinkAt(9000), world_.LinkTo("c", 3));
  EXPECT_EQ(topology_->Links().size(), 3u);
}

TEST_F(Cluster, AnyMasterForNoSlot) {
  Ready();
  Link("a", 1).SetUsable(false);
  EXPECT_EQ(topology_->LinkFor(Exchange::kNoSlot), world_.LinkTo("c", 3));
}

TEST_F(Cluster, MovedIsSentThereOnceAndTheMapIsAskedFor) {
  Ready();
  const FakeExchange* const other = Sent(7);
  const FakeExchange* const exchange = Sent(7);
  FakeLink& a = Link("a", 1);
  a.Answer("+OK\r\n");
  EXPECT_EQ(other->fate, Fate::kReplied) << "others of the pipeline are untouched";
  a.Redirect(Kind::kMoved, 7, "e", 5);
  ASSERT_EQ(Link("e", 5).sent.size(), 1u);
  EXPECT_FALSE(Link("e", 5).sent[0].asking);
  EXPECT_EQ(LinkAt(7).target().Text(), "e:5");
  EXPECT_EQ(LinkAt(8).target().Text(), "a:1");
  EXPECT_FALSE(exchange->fate.has_value());
  Link("e", 5).Answer("+OK\r\n");
  EXPECT_EQ(exchange->fate, Fate::kReplied);
  // Who was named is asked for the map.
  world_.timer.Advance(ClusterTopology::kRefreshMin);
  EXPECT_EQ(Link("e", 5).Oldest(), "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
  EXPECT_EQ(world_.counters.moved.load(), 1u);
}

TEST_F(Cluster, ManyMovedAskOnce) {
  Ready();
  const uint64_t before = world_.counters.refreshes.load();
  for (int i = 0; i < 100; ++i) Sent(i);
  FakeLink& a = Link("a", 1);
  for (int i = 0; i < 100; ++i) a.Redirect(Kind::kMoved, i, "c", 3);
  EXPECT_EQ(Link("c", 3).sent.size(), 100u);
  world_.timer.Advance(Micros{0});
  EXPECT_LE(world_.counters.refreshes.load() - before, ClusterTopology::kAskedAtOnce);
  EXPECT_GE(world_.counters.refreshes.load() - before, 1u);
}

TEST_F(Cluster, AskIsSentThereAskingAndTheMapStays) {
  Ready();
  const FakeExchange* const exchange = Sent(7);
  Link("a", 1).Redirect(Kind::kAsk, 7, "e", 5);
  ASSERT_EQ(Link("e", 5).sent.size(), 1u);
  EXPECT_TRUE(Link("e", 5).sent[0].asking);
  EXPECT_EQ(LinkAt(7).target().Text(), "a:1");
  Link("e", 5).Answer("+OK\r\n");
  EXPECT_EQ(exchange->fate, Fate::kReplied);
}

TEST_F(Cluster, AnEmptyHostIsTheOneThatAnswered) {
  Ready();
  Sent(7);
  Link("a", 1).Redirect(Kind::kMoved, 7, "", 77);
  ASSERT_NE(world_.LinkTo("a", 77), nullptr);
  Link("a", 77).Answer("+OK\r\n");
}

TEST_F(Cluster, Ipv6AndHostNamesArePlainHosts) {
  Ready();
  Sent(7);
  Link("a", 1).Redirect(Kind::kMoved, 7, "2001:db8::7", 6379);
  ASSERT_NE(world_.LinkTo("2001:db8::7", 6379), nullptr);
  Link("2001:db8::7", 6379).Answer("+OK\r\n");
}

TEST_F(Cluster, TryAgainIsSentAgainALittleLater) {
  Ready();
  const FakeExchange* const exchange = Sent(7);
  Link("a", 1).Redirect(Kind::kTryAgain);
  EXPECT_TRUE(Link("a", 1).sent.empty());
  world_.timer.Advance(ClusterTopology::kFirstPark);
  ASSERT_EQ(Link("a", 1).sent.size(), 1u);
  Link("a", 1).Redirect(Kind::kTryAgain);
  world_.timer.Advance(ClusterTopology::kFirstPark * 2);
  Link("a", 1).Answer("+OK\r\n");
  EXPECT_EQ(exchange->fate, Fate::kReplied);
  EXPECT_EQ(world_.counters.try_again.load(), 2u);
}

TEST_F(Cluster, WhatIsForSeveralIsDividedByTryAgainAlone) {
  Ready();
  FakeExchange* const exchange = Sent(7);
  exchange->of_several = true;
  Link("a", 1).Redirect(Kind::kAsk, 7, "c", 3);
  Link("c", 3).Redirect(Kind::kMoved, 7, "a", 1);
  EXPECT_EQ(exchange->divided, 0);
  Link("a", 1).Redirect(Kind::kTryAgain);
  EXPECT_EQ(exchange->divided, 1);
  EXPECT_EQ(exchange->redirects, 3) << "its parts go on counting";
  world_.timer.Advance(Millis(20));
  EXPECT_FALSE(exchange->fate.has_value()) << "it is its owner's";
  EXPECT_EQ(world_.counters.given_up.load(), 0u);
}

TEST_F(Cluster, NothingIsSentAgainPastItsDeadline) {
  Ready();
  const FakeExchange* const exchange = Sent(7, Micros{500});
  Link("a", 1).Redirect(Kind::kTryAgain);
  EXPECT_FALSE(exchange->fate.has_value());
  world_.timer.Advance(Micros{500});
  EXPECT_EQ(exchange->fate, Fate::kNotRun);
  EXPECT_EQ(exchange->reason, Reason::kTimeout);
  EXPECT_TRUE(Link("a", 1).sent.empty());

  const FakeExchange* const late = Sent(7, Millis(1));
  world_.timer.Advance(Millis(1));
  Link("a", 1).Redirect(Kind::kMoved, 7, "c", 3);
  EXPECT_EQ(late->fate, Fate::kNotRun);
  EXPECT_TRUE(Link("c", 3).sent.empty());
  EXPECT_EQ(world_.counters.given_up.load(), 2u);
}

TEST_F(Cluster, RedirectsAreBounded) {
  Ready();
  const FakeExchange* const exchange = Sent(7, Seconds(5));
  int sent = 1;
  while (!exchange->fate) {
    FakeLink& from = Link("a", 1).sent.empty() ? Link("c", 3) : Link("a", 1);
    ASSERT_FALSE(from.sent.empty());
    from.Redirect(Kind::kMoved, 7, from.target().host == "a" ? "c" : "a", from.target().host == "a" ? 3 : 1);
    ++sent;
  }
  EXPECT_EQ(sent - 1, kMaxRedirects + 1);
  EXPECT_EQ(exchange->fate, Fate::kNotRun);
}

TEST_F(Cluster, AFailoverIsFoundWhileTheMasterIsGone) {
  Ready();
  const FakeExchange* const lost = Sent(7);
  Link("a", 1).Break();
  EXPECT_EQ(lost->fate, Fate::kUnknown) << "what was sent is not sent again";
  EXPECT_NE(topology_->trouble(), "");
  FakeExchange refused(7, world_.In(Millis(20)));
  EXPECT_EQ(LinkAt(7).Send(refused), Reason::kEngineDown);
  world_.timer.Advance(ClusterTopology::kRefreshMin);
  ASSERT_FALSE(Link("c", 3).sent.empty());
  // The failover has not happened yet: it is asked again.
  Link("c", 3).Answer(TwoMasters());
  world_.timer.Advance(ClusterTopology::kRefreshMax);
  ASSERT_FALSE(Link("c", 3).sent.empty());
  Link("c", 3).Answer(
      Map({Range(0, 8191, {Node("b", 2)}), Range(8192, 16383, {Node("c", 3), Node("d", 4)})}));
  EXPECT_EQ(LinkAt(7).target().Text(), "b:2");
  LinkAt(7).SetUsable(true);
  EXPECT_EQ(topology_->trouble(), "");
  EXPECT_GE(world_.counters.changes.load(), 2u);
}

TEST_F(Cluster, ReadOnlyAndDownWaitForTheNewMap) {
  Ready();
  const FakeExchange* const demoted = Sent(7);
  const FakeExchange* const down = Sent(8);
  Link("a", 1).Redirect(Kind::kReadOnly);
  Link("a", 1).Redirect(Kind::kClusterDown);
  world_.timer.Advance(Micros{0});
  // Both nodes are asked; the new map wakes what waits before its pause is over.
  ASSERT_FALSE(Link("c", 3).sent.empty());
  Link("c", 3).Answer(Map({Range(0, 16383, {Node("c", 3)})}));
  EXPECT_EQ(Link("c", 3).sent.size(), 2u);
  Link("c", 3).Answer("+OK\r\n");
  Link("c", 3).Answer("+OK\r\n");
  EXPECT_EQ(demoted->fate, Fate::kReplied);
  EXPECT_EQ(down->fate, Fate::kReplied);
}

TEST_F(Cluster, ASlotWithoutMasterIsTroubleAndWatched) {
  Open();
  Link("a", 1).SetUsable(true);
  Link("a", 1).Answer(Map({Range(0, 99, {Node("a", 1)})}));
  EXPECT_EQ(topology_->LinkFor(100), nullptr);
  EXPECT_EQ(topology_->trouble(), "16284 slots of the cluster have no master");
  world_.timer.Advance(ClusterTopology::kRefreshMax);
  ASSERT_FALSE(Link("a", 1).sent.empty());
  Link("a", 1).Answer(TwoMasters());
  EXPECT_EQ(LinkAt(100).target().Text(), "a:1");
}

TEST_F(Cluster, AFrozenNodeDoesNotHoldTheMapUp) {
  Ready();
  Sent(9000);
  Link("c", 3).Redirect(Kind::kMoved, 9000, "a", 1);
  Link("a", 1).Answer("+OK\r\n");
  for (int i = 0; i < 20; ++i) {
    world_.timer.Advance(Seconds(2));  // "a" takes every question and answers none
    if (!Link("a", 1).sent.empty()) Link("a", 1).Expire();
    ASSERT_LE(Link("a", 1).sent.size(), 1u) << "a node that owes an answer is not asked again";
    FakeLink& c = Link("c", 3);
    if (!c.sent.empty()) c.Answer(TwoMasters());
  }
  EXPECT_EQ(topology_->trouble(), "");
  // What it says after all is of another day.
  Link("a", 1).Answer(Map({Range(0, 16383, {Node("x", 1)})}));
  EXPECT_EQ(LinkAt(9000).target().Text(), "c:3");
}

TEST_F(Cluster, SaysWhatIsWrongWithTheServer) {
  Open();
  Link("a", 1).SetUsable(true);
  Link("a", 1).Answer("-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n");
  EXPECT_NE(topology_->trouble().find("+cluster|slots"), std::string_view::npos) << topology_->trouble();
  Link("s", 9).Answer("-ERR This instance has cluster support disabled\r\n");
  EXPECT_NE(topology_->trouble().find("redis://"), std::string_view::npos) << topology_->trouble();
  EXPECT_EQ(world_.counters.failed_refreshes.load(), 2u);
  EXPECT_EQ(topology_->LinkFor(1), nullptr);
}

TEST_F(Cluster, SeedsThatComeUpLaterAreFound) {
  Open();
  Link("a", 1).Break();
  Link("s", 9).Break();
  EXPECT_NE(topology_->trouble().find("refused"), std::string_view::npos) << topology_->trouble();
  world_.timer.Advance(Seconds(60));
  EXPECT_EQ(world_.opened, 2);
  Link("s", 9).SetUsable(true);
  world_.timer.Advance(ClusterTopology::kRefreshMin);
  ASSERT_FALSE(Link("s", 9).sent.empty());
  Link("s", 9).Answer(TwoMasters());
  EXPECT_EQ(LinkAt(1).target().Text(), "a:1");
}

TEST_F(Cluster, LinksThatNobodyNeedsAreClosed) {
  Ready();
  ASSERT_NE(world_.LinkTo("s", 9), nullptr);
  Link("s", 9).SetUsable(true);
  for (int i = 0; i < 20; ++i) {
    world_.timer.Advance(Seconds(10));
    for (FakeLink* link : std::vector<FakeLink*>(world_.links)) {
      while (!link->sent.empty()) link->Answer(TwoMasters());
    }
  }
  EXPECT_EQ(world_.LinkTo("s", 9), nullptr);
  EXPECT_EQ(world_.links.size(), 2u);
  EXPECT_EQ(topology_->trouble(), "");
}

TEST_F(Cluster, WhatWaitsIsDoneWhenItEnds) {
  Ready();
  const FakeExchange* const parked = Sent(7);
  Link("a", 1).Redirect(Kind::kTryAgain);
  FakeExchange* const flying = Sent(9000);
  // Who hears of the end asks again, and is told that nobody is there.
  ServerLink* found = &Link("a", 1);
  flying->then = [&, going = topology_.get()] { found = going->LinkFor(9000); };
  topology_.reset();
  EXPECT_EQ(parked->fate, Fate::kNotRun);
  EXPECT_EQ(flying->fate, Fate::kUnknown);
  EXPECT_EQ(found, nullptr);
  EXPECT_TRUE(world_.links.empty());
  EXPECT_EQ(world_.timer.pending(), 0u);
}

TEST_F(Cluster, RedirectsToManyHostsAreBounded) {
  Ready();
  for (int i = 0; i < 3'000; ++i) {
    const FakeExchange* const exchange = Sent(9000);
    FakeLink& from = LinkAt(9000);
    const size_t at = from.sent.size();
    ASSERT_GE(at, 1u);
    from.Redirect(Kind::kMoved, 7, "host" + std::to_string(i), 1);
    if (FakeLink* to = world_.LinkTo("host" + std::to_string(i), 1)) to->Lose(Fate::kNotRun);
    world_.timer.Advance(Micros{0});
    while (!from.sent.empty()) from.Lose(Fate::kNotRun);
    if (!exchange->fate) world_.timer.Advance(Millis(50));
    while (!from.sent.empty()) from.Lose(Fate::kNotRun);
    ASSERT_TRUE(exchange->fate.has_value());
  }
  EXPECT_LE(world_.links.size(), SlotMap::kMostNodes + options_.seeds.size());
}

// --- The reply itself ---

Result<SlotMap> Read(const std::string& text) {
  resp::ReplyParser parser;
  EXPECT_EQ(parser.Parse(text).status, resp::ParseStatus::kDone);
  return ReadSlotMap(parser.nodes(), "asked");
}

TEST(SlotMapReply, NamesEachNodeOnce) {
  const Result<SlotMap> map =
      Read(Map({Range(0, 5, {Node("a", 1), Node("b", 2)}), Range(6, 9, {Node("b", 2)})}));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->nodes, (std::vector<NodeAddress>{{"a", 1}, {"b", 2}}));
  ASSERT_EQ(map->ranges.size(), 2u);
  EXPECT_EQ(map->ranges[1].node, 1u);
  EXPECT_EQ(map->ranges[1].last, 9);
}

TEST(SlotMapReply, AHostThatIsNotSaidIsTheOneAsked) {
  const Result<SlotMap> map = Read(Map({Range(0, 5, {Node("", 1)}), Range(6, 7, {"*2\r\n$-1\r\n:2\r\n"})}));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->nodes, (std::vector<NodeAddress>{{"asked", 1}, {"asked", 2}}));
}

TEST(SlotMapReply, AHostThatNobodyKnowsServesNothing) {
  const Result<SlotMap> map =
      Read(Map({Range(0, 5, {Node("?", 1), Node("b", 2)}), Range(6, 7, {Node("c", 0)})}));
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->ranges.empty());
  EXPECT_EQ(map->nodes, (std::vector<NodeAddress>{{"b", 2}}));
}

TEST(SlotMapReply, AnyOtherShapeIsAnError) {
  for (const std::string& text :
       {std::string("+OK\r\n"), std::string("*1\r\n:1\r\n"), std::string("*1\r\n*2\r\n:0\r\n:1\r\n"),
        Map({Range(0, 16384, {Node("a", 1)})}), Map({Range(-1, 5, {Node("a", 1)})}),
        Map({Range(6, 5, {Node("a", 1)})}), Map({Range(0, 5, {Node("a", 65536)})}),
        Map({Range(0, 5, {"*1\r\n$1\r\na\r\n"})}), Map({Range(0, 5, {"*2\r\n*1\r\n:1\r\n:2\r\n"})}),
        std::string("*1\r\n*3\r\n*1\r\n:0\r\n:5\r\n:6\r\n")}) {
    EXPECT_FALSE(Read(text)) << text;
  }
  EXPECT_TRUE(Read("*0\r\n"));
}

TEST(SlotMapReply, TooManyNodesAreRefused) {
  std::vector<std::string> ranges;
  for (int i = 0; i < 1'025; ++i) ranges.push_back(Range(i, i, {Node("h" + std::to_string(i), 1)}));
  EXPECT_FALSE(Read(Map(ranges)));
  ranges.pop_back();
  EXPECT_TRUE(Read(Map(ranges)));
}

}  // namespace
}  // namespace penstock::engine::redis
