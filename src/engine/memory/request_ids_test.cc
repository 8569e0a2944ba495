#include "engine/memory/request_ids.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace penstock::engine {
namespace {

class RequestIdsTest : public testing::Test {
 protected:
  bool Insert(RequestIds& ids, const Hash128& id, size_t operations, Micros keep) NO_THREAD_SAFETY_ANALYSIS {
    ShardLock& lock = ids.LockOf(id);
    lock.Lock();
    const bool kept = ids.Insert(id, operations, now_ + keep, now_) != nullptr;
    lock.Unlock();
    return kept;
  }
  bool Has(RequestIds& ids, const Hash128& id) NO_THREAD_SAFETY_ANALYSIS {
    ShardLock& lock = ids.LockOf(id);
    lock.Lock();
    const bool has = ids.Find(id, now_) != nullptr;
    lock.Unlock();
    return has;
  }

  EngineTime now_{1'000'000'000};
};

TEST_F(RequestIdsTest, AnIdIsThereUntilItsTimeAndCanBeUsedAgainAfter) {
  RequestIds ids(1'000);
  const Hash128 id{1, 2};
  EXPECT_FALSE(Has(ids, id));
  EXPECT_TRUE(Insert(ids, id, 1, Seconds(60)));
  now_ = now_ + Seconds(60) - Micros{1};
  EXPECT_TRUE(Has(ids, id));
  now_ = now_ + Micros{1};
  EXPECT_FALSE(Has(ids, id));
  EXPECT_TRUE(Insert(ids, id, 1, Seconds(60)));
  EXPECT_TRUE(Has(ids, id));
  EXPECT_EQ(ids.size(), 1u);
}

TEST_F(RequestIdsTest, TheBoundCountsVerdictsAndExpiredIdsMakeRoom) {
  RequestIds ids(64 * 4);  // 4 a shard
  EXPECT_TRUE(Insert(ids, {64, 1}, 3, Seconds(60)));
  EXPECT_FALSE(Insert(ids, {64, 2}, 2, Seconds(60)));
  EXPECT_TRUE(Insert(ids, {64, 3}, 1, Seconds(10)));
  EXPECT_FALSE(Insert(ids, {64, 4}, 1, Seconds(10)));
  now_ = now_ + Seconds(10);
  EXPECT_TRUE(Insert(ids, {64, 4}, 1, Seconds(10)));
  EXPECT_TRUE(Has(ids, {64, 1}));
  EXPECT_FALSE(Insert(ids, {64, 5}, 5, Seconds(10)));  // more than a shard ever holds
}

TEST_F(RequestIdsTest, ExpiredIdsLeaveWhileNewOnesCome) {
  RequestIds ids(1'000'000);
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    Insert(ids, {random.Next(), random.Next()}, 1, Seconds(1));
    now_ = now_ + Millis(1);
  }
  EXPECT_LE(ids.size(), 1'200u);  // those of the last second, and a few that expired since
}

}  // namespace
}  // namespace penstock::engine
