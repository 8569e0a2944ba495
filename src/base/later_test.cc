#include "base/later.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace penstock {
namespace {

class Queue final : public Executor {
 public:
  void Post(std::function<void()> task) override { tasks.push_back(std::move(task)); }
  void Turn() {
    for (const auto& task : std::exchange(tasks, {})) task();
  }
  std::vector<std::function<void()>> tasks;
};

TEST(Later, RunsOnceHoweverOftenItWasAskedFor) {
  Queue queue;
  int runs = 0;
  Later later(queue, [&] { ++runs; });
  later.Post();
  later.Post();
  EXPECT_EQ(runs, 0) << "never inside the call";
  EXPECT_EQ(queue.tasks.size(), 1u);
  queue.Turn();
  EXPECT_EQ(runs, 1);
  later.Post();
  queue.Turn();
  EXPECT_EQ(runs, 2);
}

TEST(Later, ATaskMayAskForTheNextRun) {
  Queue queue;
  int runs = 0;
  std::unique_ptr<Later> later;
  later = std::make_unique<Later>(queue, [&] {
    if (++runs == 1) later->Post();
  });
  later->Post();
  queue.Turn();
  EXPECT_EQ(runs, 1);
  queue.Turn();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(queue.tasks.empty());
}

TEST(Later, IsNotRunOnceItIsGone) {
  Queue queue;
  int runs = 0;
  auto later = std::make_unique<Later>(queue, [&] { ++runs; });
  later->Post();
  later.reset();
  queue.Turn();
  EXPECT_EQ(runs, 0);
}

TEST(Later, ATaskMayEndItsLife) {
  Queue queue;
  std::unique_ptr<Later> later;
  const auto kept = std::make_shared<int>(0);
  later = std::make_unique<Later>(queue, [&later, kept] {
    later.reset();
    ++*kept;
  });
  later->Post();
  queue.Turn();
  EXPECT_EQ(*kept, 1);
  EXPECT_EQ(later, nullptr);
}

}  // namespace
}  // namespace penstock
