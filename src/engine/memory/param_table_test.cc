#include "engine/memory/param_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace penstock::engine {
namespace {

core::LimitParams Params(int64_t count) {
  core::RateSpec spec;
  spec.count = count;
  spec.period = Seconds(60);
  return *core::CompileRate(spec);
}

TEST(ParamTable, EqualParametersOfOneVersionShareANumber) {
  ParamTable table;
  const uint32_t a = table.Intern(Params(1), 5);
  EXPECT_EQ(table.Intern(Params(1), 5), a);
  EXPECT_NE(table.Intern(Params(1), 6), a);
  EXPECT_NE(table.Intern(Params(2), 5), a);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table[a].params, Params(1));
  EXPECT_EQ(table[a].version, 5);
}

TEST(ParamTable, ANumberIsUsedAgainOnceNothingRefersToIt) {
  ParamTable table(1);
  const uint32_t a = table.Intern(Params(1), 1);
  table.AddReference(a);
  table.Release(a);
  EXPECT_EQ(table.Intern(Params(2), 1), ParamTable::kNone);
  EXPECT_EQ(table[a].params, Params(1));
  table.Release(a);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.Intern(Params(2), 1), a);
}

TEST(ParamTable, HoldsAsManyAsItSaysAndThenRefuses) {
  constexpr uint32_t kMost = 1'500;  // more than a chunk
  ParamTable table(kMost);
  std::set<uint32_t> numbers;
  for (uint32_t i = 0; i < kMost; ++i) numbers.insert(table.Intern(Params(i + 1), 1));
  EXPECT_EQ(numbers.size(), kMost);
  EXPECT_FALSE(numbers.contains(ParamTable::kNone));
  EXPECT_EQ(table.Intern(Params(5'000), 1), ParamTable::kNone);
  for (uint32_t i = 0; i < kMost; ++i) EXPECT_EQ(table.Intern(Params(i + 1), 1) == ParamTable::kNone, false);
}

TEST(ParamTable, ThreadsThatInternAndReleaseTheSameNeverSeeAnothersParameters) {
  ParamTable table;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5'000; ++i) {
        const core::LimitParams params = Params(i % 3 + 1);
        const uint32_t number = table.Intern(params, 0);
        wrong += !(table[number].params == params);
        table.Release(number);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace penstock::engine
