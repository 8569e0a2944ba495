// `strict: true` on real servers that lose what they granted: nothing is granted for one lease after it, and never are
// more than N held; without it up to (k + 1) N are after k losses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "redis/cluster.h"
#include "redis/redis_server.h"
#include "redis/sentinel_set.h"
#include "redis/strict_node.h"
#include "redis/users.h"

namespace penstock::fixtures {
namespace {

using core::PermitFate;
using engine::GroupState;
using engine::PermitVerb;

constexpr int64_t kPermits = 3;
const std::vector<std::string> kStops = {"min-replicas-to-write 1", "min-replicas-max-lag 1"};

// Everything is granted once the first lease is over.
void GrantAll(StrictNode& node, const core::Limit& limit) {
  node.AskUntilGranted(limit, kPermits, Seconds(30));
  ASSERT_EQ(node.Held(), kPermits);
  EXPECT_EQ(node.Ask(limit).outcome, Outcome::kDenied);
}

// Nobody has asked a store that lost something before `since`.
void ExpectHeldBack(StrictNode& node, const core::Limit& limit, EngineTime since) {
  const Micros lease = limit.params.period;
  const core::Verdict verdict = node.AskDecided(limit);
  ASSERT_EQ(verdict.outcome, Outcome::kDenied);
  EXPECT_LE(verdict.retry_after, lease);
  EXPECT_GT(verdict.retry_after, Micros{lease.count / 2});
  node.AskUntilGranted(limit, kPermits, lease + Seconds(10));
  ASSERT_GE(node.grants.size(), static_cast<size_t>(kPermits));
  EXPECT_GE(node.grants[node.grants.size() - kPermits].at, since + lease);
  EXPECT_EQ(node.most_held, kPermits);
}
void ExpectHeldBack(StrictNode& node, const core::Limit& limit) { ExpectHeldBack(node, limit, node.now()); }

TEST(StrictTest, AnEmptiedStoreAndARestartGrantNothingForALease) {
  const Micros lease = Seconds(2);
  RedisServer server;
  StrictNode node(server.Url());
  const auto limit = node.Semaphore(kPermits, lease, true);
  ExpectHeldBack(node, *limit);
  server.Connect().Must("FLUSHALL");
  ExpectHeldBack(node, *limit);
  server.Restart(Keep::kNothing);
  ExpectHeldBack(node, *limit);
  node.AskUntilGranted(*limit, 1, Seconds(30));  // one that is known after the restart
  ASSERT_FALSE(node.grants.empty());
  server.Restart(Keep::kData);
  const EngineTime restarted = node.now();
  node.AskDecided(*limit);
  EXPECT_EQ(node.Call(PermitVerb::kRenew, node.grants.back().permit), PermitFate::kRenewed) << "that goes on";
  EXPECT_EQ(node.Call(PermitVerb::kRelease, node.grants.back().permit), PermitFate::kReleased);
  node.grants.pop_back();
  ExpectHeldBack(node, *limit, restarted);
  EXPECT_EQ(server.Connect().Must("PTTL", "pen:strict").integer, -1);
}

// A lease beyond which nothing is lost: with an emptied store more than N are held at once.
TEST(StrictTest, WithoutItAnEmptiedStoreGrantsAllOnceMore) {
  RedisServer server;
  StrictNode node(server.Url());
  const auto limit = node.Semaphore(kPermits, Seconds(20), false);
  for (int64_t losses = 0; losses < 3; ++losses) {
    node.AskUntilGranted(*limit, kPermits, Seconds(10));
    EXPECT_EQ(node.Held(), (losses + 1) * kPermits);
    EXPECT_EQ(node.Ask(*limit).outcome, Outcome::kDenied);
    server.Connect().Must("FLUSHALL");
  }
}

// Two replicas; one of them follows no more while permits are granted, and it is the one that is promoted.
class LostWrites {
 public:
  explicit LostWrites(std::vector<std::string> lines) : set_(2, std::move(lines)) {
    set_.WaitReplicas();
    for (size_t i = 0; i < set_.servers(); ++i) {
      RedisServer& server = set_.server(i);
      if (&server == &set_.master()) continue;
      (kept_ == nullptr ? kept_ : late_) = &server;
    }
  }
  SentinelSet& set() { return set_; }
  void CutOff() {
    late_->Freeze();
    RedisClient master = set_.master().Connect();
    for (const std::string port = "port=" + std::to_string(late_->port());;) {
      const std::string info = master.Must("INFO", "replication").text;
      const size_t at = info.find(port);
      if (at == std::string::npos) break;
      master.Call("CLIENT", "KILL", "TYPE", "replica");  // the other one comes back at once
    }
    WaitFor("the other replica", [&] {
      return master.Must("INFO", "replication").text.find("state=online") != std::string::npos;
    });
  }
  // The other replica comes back once the late one is the master.
  void Promote() {
    kept_->Kill();
    late_->Thaw();
    set_.KillMaster();
    ASSERT_EQ(&set_.master(), late_);
    kept_->Start();
  }

 private:
  SentinelSet set_;
  RedisServer* kept_ = nullptr;
  RedisServer* late_ = nullptr;
};

TEST(StrictTest, AFailoverThatLosesGrantsGrantsNothingForALease) {
  LostWrites store(kStops);
  StrictNode node(store.set().Url());
  const auto limit = node.Semaphore(kPermits, Seconds(8), true);
  EXPECT_EQ(node.AskDecided(*limit).outcome, Outcome::kDenied);
  node.Pause(Seconds(8));
  store.CutOff();
  GrantAll(node, *limit);
  store.Promote();
  ExpectHeldBack(node, *limit);
}

// False: the late replica heard, in the instant between its waking and the master's death, what it had missed, so that
// nothing was lost.
bool GrantsAllOnceMore() {
  LostWrites store({});
  StrictNode node(store.set().Url());
  const auto limit = node.Semaphore(kPermits, Seconds(40), false);
  EXPECT_EQ(node.AskDecided(*limit).outcome, Outcome::kAllowed);
  store.set().WaitReplicas();
  EXPECT_EQ(node.Call(PermitVerb::kRelease, node.grants.back().permit), PermitFate::kReleased);
  node.grants.clear();
  node.most_held = 0;
  store.CutOff();
  GrantAll(node, *limit);
  store.Promote();
  if (node.AskDecided(*limit).outcome != Outcome::kAllowed) return false;
  node.AskUntilGranted(*limit, 2 * kPermits, Seconds(2));
  EXPECT_EQ(node.most_held, 2 * kPermits) << "k = 1";
  return true;
}

TEST(StrictTest, WithoutItAFailoverThatLosesGrantsGrantsAllOnceMoreAndNoMore) {
  bool lost = false;
  for (int tries = 0; tries < 3 && !lost; ++tries) lost = GrantsAllOnceMore();
  EXPECT_TRUE(lost);
}

TEST(StrictTest, AClustersFailoverGrantsNothingForALease) {
  Cluster cluster({"min-replicas-to-write 1", "min-replicas-max-lag 1"});
  StrictNode node(cluster.Url());
  const auto limit = node.Semaphore(kPermits, Seconds(2), true);
  ExpectHeldBack(node, *limit);
  const int slot = static_cast<int>(node.grants.back().permit.places[0].bucket.high >> 50);
  cluster.Failover(cluster.Owner(slot));
  ExpectHeldBack(node, *limit);
}

TEST(StrictTest, WhereAMasterThatIsCutOffGoesOnItIsRefused) {
  SentinelSet set(1);
  const auto ask = [&](Micros lease) {
    StrictNode node(set.Url());
    const auto limit = node.Semaphore(kPermits, lease, true);
    WaitFor("a connection", [&] {
      node.Pause(Millis(10));
      return node.ready();
    });
    node.Ask(*limit);
    return node.result.state;
  };
  RedisClient master = set.master().Connect();
  EXPECT_EQ(ask(Seconds(5)), GroupState::kUnavailable);
  master.Must("CONFIG", "SET", "min-replicas-to-write", "1");
  master.Must("CONFIG", "SET", "min-replicas-max-lag", "5");
  EXPECT_EQ(ask(Seconds(5)), GroupState::kUnavailable) << "not below the lease";
  EXPECT_EQ(ask(Seconds(6)), GroupState::kDecided);
  master.Must("ACL", "SETUSER", NodeUser().name, "-config|get");
  EXPECT_EQ(ask(Seconds(6)), GroupState::kUnavailable);
  master.Must("ACL", "SETUSER", NodeUser().name, "+config|get", "-info");
  EXPECT_EQ(ask(Seconds(6)), GroupState::kUnavailable);
  master.Must("ACL", "SETUSER", NodeUser().name, "+info");
  EXPECT_EQ(ask(Seconds(6)), GroupState::kDecided);
}

// A master whose replica has stopped may be cut off from all others: what it grants would be lost.
TEST(ReplicasTest, AnIsolatedMasterGrantsNothingUntilItsReplicaIsBack) {
  SentinelSet set(1);
  set.WaitReplicas();
  RedisServer& replica = &set.server(0) == &set.master() ? set.server(1) : set.server(0);
  StrictNode node(set.Url());
  const auto limit = node.Semaphore(2, Seconds(60), false, 1);
  node.AskUntilGranted(*limit, 1, Seconds(30));
  ASSERT_EQ(node.Held(), 1);
  replica.Freeze();
  for (int i = 0; i < 3; ++i) {
    node.Ask(*limit);
    EXPECT_EQ(node.result.state, GroupState::kUnavailable);
    EXPECT_EQ(node.grants.size(), 1u);
  }
  const auto other = node.Semaphore(2, Seconds(60), false);
  node.AskUntilGranted(*other, 1, Seconds(30));
  ASSERT_EQ(node.Held(), 2) << "what was granted is taken back, and nobody else waits for replicas";
  EXPECT_EQ(node.Call(PermitVerb::kRelease, node.grants.back().permit), PermitFate::kReleased);
  node.grants.pop_back();
  replica.Thaw();
  node.AskUntilGranted(*limit, 1, Seconds(30));
  EXPECT_EQ(node.Held(), 2);
  EXPECT_EQ(node.AskDecided(*limit).outcome, Outcome::kDenied);
  EXPECT_EQ(node.Ask(*limit).outcome, Outcome::kDenied) << "a refusal waits for nobody";
}

}  // namespace
}  // namespace penstock::fixtures
