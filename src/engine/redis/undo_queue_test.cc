// Undos, how often they are tried, and what is counted in the end.
#include "engine/redis/undo_queue.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/redis/testing/fake_net.h"

namespace penstock::engine::redis {
namespace {

class UndoQueueTest : public ::testing::Test, protected UndoAsker {
 protected:
  void AskUndo(uint64_t number, int32_t, SteadyTime) noexcept override { asked_.push_back(number); }

  void Add(std::string id_key) {
    std::vector<Undo> charges(1);
    charges[0].id_key = std::move(id_key);
    queue_.Add(std::move(charges), 0);
  }

  ManualClock clock_{EngineTime{5'000'000}};
  by_hand::FakeLoop loop_{clock_};
  Counters counters_;
  std::vector<uint64_t> asked_;
  UndoQueue queue_{*this, loop_, clock_, counters_};
};

TEST_F(UndoQueueTest, WhatDidNotRunIsTriedForFiveSecondsAndThenLost) {
  Add("");
  for (size_t i = 0; i < asked_.size(); ++i) {
    queue_.Answered(asked_[i], UndoFate::kNotRun);
    loop_.Advance(UndoQueue::kPause);
  }
  EXPECT_EQ(asked_.size(), static_cast<size_t>(UndoQueue::kKeepTrying.count / UndoQueue::kPause.count) + 1);
  EXPECT_EQ(counters_.undo_lost, 1u);
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(UndoQueueTest, OfUnknownFateOnlyOneWithAnIdIsTriedAgain) {
  Add("");
  queue_.Answered(1, UndoFate::kMayHaveRun);
  EXPECT_EQ(counters_.undo_lost, 1u);
  Add("id");
  queue_.Answered(2, UndoFate::kMayHaveRun);
  loop_.Advance(UndoQueue::kPause);
  EXPECT_EQ(asked_, (std::vector<uint64_t>{1, 2, 2}));
  queue_.Answered(2, UndoFate::kDone);
  EXPECT_EQ(counters_.undone, 1u);
  EXPECT_EQ(counters_.undo_lost, 1u);
}

// Rule E4: one that meets a newer version is dropped, and counted.
TEST_F(UndoQueueTest, OneThatMeetsANewerVersionIsLostAtOnce) {
  Add("id");
  queue_.Answered(1, UndoFate::kDropped);
  loop_.Advance(UndoQueue::kKeepTrying);
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(counters_.undo_lost, 1u);
  EXPECT_EQ(counters_.undone, 0u);
}

}  // namespace
}  // namespace penstock::engine::redis
