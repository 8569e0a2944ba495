#include "engine/memory/slot_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <vector>

#include "base/random.h"

namespace penstock::engine {
namespace {

uint64_t Seed() {
  const char* const text = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = text == nullptr ? 20'261'129 : std::strtoull(text, nullptr, 10);
  std::cout << "PENSTOCK_SEED=" << seed << std::endl;
  return seed;
}

Slot* Add(SlotTable& table, const Hash128& name, int64_t value) {
  while (!table.HasRoom(1)) EXPECT_TRUE(table.Grow());
  Slot* const slot = table.Insert(name);
  slot->Set(value, 0, 0);
  return slot;
}

TEST(Slot, PacksValueStampAndParameterNumberToTheirLimits) {
  Slot slot;
  const uint32_t most = (1u << 22) - 1;
  for (const int64_t value : {int64_t{0}, int64_t{1}, Slot::kMaxField}) {
    for (const int64_t stamp : {int64_t{0}, int64_t{12'345}, Slot::kMaxField}) {
      for (const uint32_t params : {0u, 1u, 2'047u, 2'048u, most}) {
        slot.Set(value, stamp, params);
        EXPECT_EQ(slot.value(), value);
        EXPECT_EQ(slot.stamp(), stamp);
        EXPECT_EQ(slot.params(), params);
      }
    }
  }
}

TEST(SlotTable, AnEmptyTableFindsNothing) {
  SlotTable table;
  EXPECT_EQ(table.Find({5, 5}), nullptr);
  table.Prefetch({5, 5});
  EXPECT_FALSE(table.HasRoom(1));
  EXPECT_EQ(table.Sweep([](const Slot&) { return true; }), 0u);
}

TEST(SlotTable, EveryNameSurvivesEveryStepOfGrowth) {
  Random random(Seed());
  SlotTable table;
  table.set_shard_bits(8);
  std::vector<Hash128> names;
  size_t bytes = 0;
  for (int64_t i = 0; i < 20'000; ++i) {
    const Hash128 name = SlotName({(random.Next() >> 8) | (uint64_t{7} << 56), random.Next()});
    names.push_back(name);
    Add(table, name, i);
    if (table.bytes() == bytes) continue;
    bytes = table.bytes();
    ASSERT_TRUE(table.Check());
    for (size_t j = 0; j < names.size(); ++j) {
      const Slot* const slot = table.Find(names[j]);
      ASSERT_NE(slot, nullptr);
      ASSERT_EQ(slot->value(), static_cast<int64_t>(j));
    }
    if (names.size() > 2'000) {
      ASSERT_LE(bytes, names.size() * 50);  // a step is an eighth
    }
  }
}

TEST(SlotTable, NamesThatWantTheSamePlaceStandInOrder) {
  SlotTable table;
  // Equal high halves, and neighbours whose homes are the last ones.
  const uint64_t highs[] = {1, 2, 3, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 1};
  std::vector<Hash128> names;
  for (const uint64_t high : highs) {
    for (uint64_t low = 0; low < 40; ++low) names.push_back({high, low * 977 % 41});
  }
  for (size_t i = 0; i < names.size(); ++i) Add(table, names[i], static_cast<int64_t>(i));
  ASSERT_TRUE(table.Check());
  for (size_t i = 0; i < names.size(); ++i) ASSERT_EQ(table.Find(names[i])->value(), static_cast<int64_t>(i));
  EXPECT_EQ(table.Find({2, 999}), nullptr);
  EXPECT_EQ(table.Find({4, 0}), nullptr);
  for (size_t i = 0; i < names.size(); i += 2) table.Erase(table.Find(names[i]));
  ASSERT_TRUE(table.Check());
  for (size_t i = 0; i < names.size(); ++i) ASSERT_EQ(table.Find(names[i]) != nullptr, i % 2 == 1);
}

TEST(SlotTable, BehavesAsAMapUnderRandomInsertsErasesAndSweeps) {
  Random random(Seed());
  SlotTable table;
  table.set_shard_bits(2);
  std::map<Hash128, int64_t> map;
  const auto random_name = [&] {
    // Few different high halves: long runs of slots.
    return SlotName({random.Below(300) << 40, random.Below(20)});
  };
  for (int i = 0; i < 30'000; ++i) {
    const Hash128 name = random_name();
    Slot* const slot = table.Find(name);
    const auto it = map.find(name);
    ASSERT_EQ(slot != nullptr, it != map.end());
    if (slot == nullptr) {
      Add(table, name, i);
      map[name] = i;
    } else if (random.Below(2) == 0) {
      ASSERT_EQ(slot->value(), it->second);
      table.Erase(slot);
      map.erase(it);
    }
    if (i % 1'000 == 999) {
      const auto old = [&](int64_t value) { return value < i - 3'000; };
      const size_t dropped = table.Sweep([&](const Slot& s) { return old(s.value()); });
      ASSERT_EQ(dropped, std::erase_if(map, [&](const auto& entry) { return old(entry.second); }));
      ASSERT_TRUE(table.Check());
    }
    ASSERT_EQ(table.size(), map.size());
  }
}

}  // namespace
}  // namespace penstock::engine
