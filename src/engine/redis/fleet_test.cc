#include "engine/redis/fleet.h"

#include <gtest/gtest.h>

#include "engine/redis/testing/topology_fakes.h"

namespace penstock::engine::redis {
namespace {

using testing::FakeLink;
using testing::FakeTimer;

class NoOwner final : public LinkOwner {
 public:
  void Redirected(ServerLink&, Exchange&, const Redirect&) noexcept override {}
  void LinkChanged(ServerLink&) noexcept override {}
};

class OneLink final : public Topology {
 public:
  ServerLink* LinkFor(int32_t) noexcept override { return there ? &link : nullptr; }
  bool has_slots() const override { return false; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override { visit(link); }
  std::vector<LinkInfo> Links() const override { return {}; }
  std::string_view trouble() const override { return {}; }

  NoOwner owner;
  std::vector<FakeLink*> all;
  FakeLink link{DialTarget{}, owner, all};
  bool there = true;
};

class FleetTest : public ::testing::Test {
 protected:
  void Answer(std::string_view resp) {
    timer_.Advance(Seconds(1));
    ASSERT_EQ(topology_.link.sent.size(), 1u);
    topology_.link.Answer(resp);
  }

  ManualClock clock_{EngineTime{1'800'000'000'000'000}};
  FakeTimer timer_{clock_};
  Script script_{"fleet", "return 1", std::string(40, 'a')};
  FleetBook book_;
  FleetBeat beat_{book_, timer_, clock_, "pen:", script_};
  OneLink topology_;
};

TEST_F(FleetTest, TwoBeatsMakeItKnown) {
  EXPECT_FALSE(book_.fleet().known);
  beat_.Start(topology_);
  Answer("*2\r\n:3\r\n:1\r\n");
  EXPECT_FALSE(book_.fleet().known);
  Answer("*2\r\n:3\r\n:1\r\n");
  EXPECT_EQ(book_.fleet(), (Fleet{3, 1, true}));
  EXPECT_EQ(book_.id().size(), 16u);
  beat_.Stop();
}

TEST_F(FleetTest, AFleetThatShrinksIsBelievedLateAndOneThatGrowsAtOnce) {
  beat_.Start(topology_);
  for (int i = 0; i < 2; ++i) Answer("*2\r\n:4\r\n:2\r\n");
  timer_.Advance(Seconds(60));                    // the one that is under way gets no answer
  EXPECT_EQ(book_.fleet(), (Fleet{4, 2, true}));  // as it was
  topology_.link.Lose(Fate::kUnknown);
  Answer("*2\r\n:1\r\n:0\r\n");  // the others have not come back yet
  EXPECT_EQ(book_.fleet(), (Fleet{4, std::nullopt, true}));
  for (int i = 0; i < 3; ++i) Answer("*2\r\n:3\r\n:1\r\n");
  EXPECT_EQ(book_.fleet().nodes, 4u);
  Answer("*2\r\n:3\r\n:1\r\n");
  EXPECT_EQ(book_.fleet(), (Fleet{3, 1, true}));
  Answer("*2\r\n:5\r\n:0\r\n");
  EXPECT_EQ(book_.fleet(), (Fleet{5, 0, true}));
  beat_.Stop();
}

TEST_F(FleetTest, NonsenseIsNotBelieved) {
  beat_.Start(topology_);
  for (const std::string_view reply : {"*2\r\n:0\r\n:0\r\n", "*2\r\n:2\r\n:2\r\n", "*2\r\n:2\r\n:-1\r\n",
                                       ":2\r\n", "*1\r\n:2\r\n", "-ERR x\r\n", "*2\r\n$1\r\n2\r\n:0\r\n"}) {
    Answer(reply);
  }
  EXPECT_EQ(book_.fleet(), Fleet{});
  beat_.Stop();
}

TEST_F(FleetTest, OneLoopBeatsAndAnotherTakesItsPlace) {
  FleetBeat other(book_, timer_, clock_, "pen:", script_);
  OneLink others;
  beat_.Start(topology_);
  timer_.Advance(Seconds(1));
  other.Start(others);
  timer_.Advance(Seconds(3));
  EXPECT_EQ(topology_.link.sent.size(), 1u);  // not another one while it is under way
  EXPECT_TRUE(others.link.sent.empty());
  topology_.link.Lose(Fate::kNotRun);
  beat_.Stop();
  timer_.Advance(Seconds(1));
  EXPECT_EQ(others.link.sent.size(), 1u);
  EXPECT_NE(others.link.Oldest().find("$11\r\npen:{fleet}\r\n"), std::string::npos);
  others.link.Lose(Fate::kNotRun);
  other.Stop();
}

TEST_F(FleetTest, WithoutAServerItTriesAgain) {
  beat_.Start(topology_);
  topology_.there = false;
  timer_.Advance(Seconds(2));
  topology_.there = true;
  topology_.link.refuses = Reason::kEngineDown;
  timer_.Advance(Seconds(2));
  EXPECT_TRUE(topology_.link.sent.empty());
  topology_.link.refuses = Reason::kNone;
  Answer("*2\r\n:1\r\n:0\r\n");
  beat_.Stop();
}

}  // namespace
}  // namespace penstock::engine::redis
