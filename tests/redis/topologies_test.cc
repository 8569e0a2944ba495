// The fixtures for Sentinel and Cluster: a failover changes who is master, a migration passes through ASK and TRYAGAIN,
// and what was written stays.
#include <gtest/gtest.h>

#include "redis/cluster.h"
#include "redis/fixture_error.h"
#include "redis/sentinel_set.h"

namespace penstock::fixtures {
namespace {

std::string NamedBy(RedisServer& sentinel) {
  return sentinel.Connect().Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelSet::kName)[1].text;
}

TEST(SentinelSetTest, AFailoverByOrderKeepsTheData) {
  SentinelSet set;
  RedisServer& old = set.master();
  old.Connect().Must("SET", "k", "v");
  set.WaitReplicas();
  set.Failover();
  RedisServer& master = set.master();
  EXPECT_NE(&master, &old);
  EXPECT_EQ(master.Connect().Call("GET", "k").text, "v");
  for (size_t i = 0; i < set.sentinels(); ++i) {
    EXPECT_EQ(NamedBy(set.sentinel(i)), std::to_string(master.port()));
  }
  WaitFor("the old one to follow", [&] { return old.Connect().Must("ROLE")[0].text == "slave"; });
  EXPECT_TRUE(old.Connect().Call("SET", "k", "w").text.starts_with("READONLY"));
}

TEST(SentinelSetTest, ADeadMasterIsReplacedAndComesBackAsAReplica) {
  SentinelSet set(2);
  RedisServer& old = set.KillMaster();
  EXPECT_NE(&set.master(), &old);
  old.Start();
  WaitFor("the old one to follow", [&] { return old.Connect().Must("ROLE")[0].text == "slave"; });
  set.WaitReplicas();
}

class ClusterTest : public testing::Test {
 protected:
  // A key of the slot that "k" is in, so that several can meet.
  static std::string Key(int i) { return "{k}" + std::to_string(i); }

  Cluster cluster_;
  const int slot_ = SlotOf("k");
};

TEST_F(ClusterTest, SlotsAreWhereTheServersHaveThem) {
  for (const std::string key :
       {"foo", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", ""}) {
    EXPECT_EQ(cluster_.node(0).Connect().Must("CLUSTER", "KEYSLOT", key).integer, SlotOf(key)) << key;
  }
  RedisServer& owner = cluster_.node(cluster_.Owner(slot_));
  EXPECT_EQ(owner.Connect().Call("SET", "k", "v").text, "OK");
  RedisServer& other = cluster_.node((cluster_.Owner(slot_) + 1) % Cluster::kMasters);
  EXPECT_EQ(other.Connect().Call("GET", "k").text,
            "MOVED " + std::to_string(slot_) + " 127.0.0.1:" + std::to_string(owner.port()));
}

TEST_F(ClusterTest, AMigrationPassesThroughAskAndTryAgain) {
  const size_t from = cluster_.Owner(slot_);
  const size_t to = (from + 1) % Cluster::kMasters;
  RedisClient old = cluster_.node(from).Connect();
  for (int i = 0; i < 4; ++i) old.Must("SET", Key(i), i);
  cluster_.BeginMigration(slot_, from, to);
  EXPECT_EQ(old.Call("GET", Key(0)).text, "0");
  EXPECT_TRUE(old.Call("GET", Key(9)).text.starts_with("ASK "));
  EXPECT_EQ(cluster_.MoveKeys(slot_, from, to, 2), 2u);
  EXPECT_TRUE(old.Call("MGET", Key(0), Key(1), Key(2), Key(3)).text.starts_with("TRYAGAIN"));
  cluster_.MoveKeys(slot_, from, to, 10);
  EXPECT_TRUE(old.Call("GET", Key(0)).text.starts_with("ASK "));
  RedisClient now = cluster_.node(to).Connect();
  EXPECT_TRUE(now.Call("GET", Key(0)).text.starts_with("MOVED "));
  now.Must("ASKING");
  EXPECT_EQ(now.Call("GET", Key(0)).text, "0");
  cluster_.EndMigration(slot_, to);
  EXPECT_EQ(now.Call("GET", Key(3)).text, "3");
  EXPECT_TRUE(old.Call("GET", Key(3)).text.starts_with("MOVED "));
  EXPECT_EQ(cluster_.Owner(slot_), to);
  cluster_.MigrateSlot(slot_, to, from);
  EXPECT_EQ(old.Call("GET", Key(3)).text, "3");
}

TEST_F(ClusterTest, ReplicasTakeOverByOrderAndByDeath) {
  const size_t owner = cluster_.Owner(slot_);
  cluster_.node(owner).Connect().Must("SET", "k", "v");
  const size_t next = cluster_.Failover(owner);
  EXPECT_NE(next, owner);
  EXPECT_EQ(cluster_.Owner(slot_), next);
  EXPECT_EQ(cluster_.node(next).Connect().Call("GET", "k").text, "v");
  EXPECT_EQ(cluster_.KillMaster(next), owner);
  EXPECT_EQ(cluster_.node(owner).Connect().Call("GET", "k").text, "v");
  cluster_.node(next).Start();
  cluster_.WaitOk();
  EXPECT_EQ(cluster_.ReplicaOf(owner), next);
}

}  // namespace
}  // namespace penstock::fixtures
