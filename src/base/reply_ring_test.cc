#include "base/reply_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"
#include "base/test_seed.h"

namespace penstock {
namespace {

TEST(ReplyRing, RepliesLeaveInTheOrderOfTheirRequests) {
  ReplyRing ring(8);
  const auto a = ring.Open();
  const auto b = ring.Open();
  const auto c = ring.Open();
  EXPECT_TRUE(ring.Reply(c, "C"));
  EXPECT_TRUE(ring.Reply(b, "B"));
  EXPECT_EQ(ring.output(), "");
  EXPECT_EQ(ring.held_bytes(), 2u);
  EXPECT_FALSE(ring.Answered(a.slot));
  EXPECT_TRUE(ring.Reply(a, "A"));
  EXPECT_EQ(ring.output(), "ABC");
  EXPECT_EQ(ring.held_bytes(), 0u);
  EXPECT_TRUE(ring.Answered(c.slot));
  EXPECT_TRUE(ring.Empty());
}

TEST(ReplyRing, EmptyRepliesCountToo) {
  ReplyRing ring(8);
  const auto a = ring.Open();
  const auto b = ring.Open();
  EXPECT_TRUE(ring.Reply(b, ""));
  EXPECT_EQ(ring.open(), 2u);
  EXPECT_TRUE(ring.Reply(a, ""));
  EXPECT_TRUE(ring.Empty());
}

TEST(ReplyRing, SecondAnswerAndUnknownSlotChangeNothing) {
  ReplyRing ring(8);
  const auto a = ring.Open();
  const auto b = ring.Open();
  EXPECT_TRUE(ring.Reply(b, "B"));
  EXPECT_FALSE(ring.Reply(b, "again"));
  EXPECT_FALSE(ring.Reply({b.slot + 1, b.generation}, "nobody asked"));
  EXPECT_TRUE(ring.Reply(a, "A"));
  EXPECT_FALSE(ring.Reply(a, "again"));
  EXPECT_EQ(ring.output(), "AB");
}

TEST(ReplyRing, LateAnswerOfAClosedGenerationIsHarmless) {
  ReplyRing ring(8);
  const auto old = ring.Open();
  const auto early = ring.Open();
  ring.Reply(early, "held");
  ring.Reset();
  EXPECT_TRUE(ring.Empty());
  const auto fresh = ring.Open();
  EXPECT_FALSE(ring.Reply(old, "late"));
  EXPECT_FALSE(ring.Reply(early, "late"));
  EXPECT_TRUE(ring.Reply(fresh, "new"));
  EXPECT_EQ(ring.output(), "new");
}

TEST(ReplyRing, FullAtItsBound) {
  ReplyRing ring(2);
  ring.Open();
  EXPECT_FALSE(ring.Full());
  ring.Open();
  EXPECT_TRUE(ring.Full());
}

TEST(ReplyRing, RandomOrderOfAnswersGivesTheOrderOfRequests) {
  Random random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    ReplyRing ring(1 + random.Below(60));
    std::deque<ReplyTicket> waiting;
    std::string expected;
    int opened = 0;
    for (int step = 0; step < 400; ++step) {
      if (!ring.Full() && random.Below(2) == 0) {
        waiting.push_back(ring.Open());
        expected += std::to_string(opened++) + ",";
      } else if (!waiting.empty()) {
        const auto at = waiting.begin() + static_cast<std::ptrdiff_t>(random.Below(waiting.size()));
        ASSERT_TRUE(ring.Reply(*at, std::to_string(at->slot) + ","));
        waiting.erase(at);
      }
    }
    for (const auto& ticket : waiting) ASSERT_TRUE(ring.Reply(ticket, std::to_string(ticket.slot) + ","));
    ASSERT_EQ(ring.output(), expected);
    ASSERT_EQ(ring.held_bytes(), 0u);
    ASSERT_TRUE(ring.Empty());
  }
}

}  // namespace
}  // namespace penstock
