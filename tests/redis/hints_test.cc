// Hints on real servers: what one node changes is in force on the others although they ask by themselves once an hour,
// on one server, behind Sentinels and in a cluster, through lost connections and failovers; and where hints are not
// possible asking alone is enough.
#include "engine/redis/hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/redis/checkup/loop_thread.h"
#include "engine/redis/redis_engine.h"
#include "engine/redis/registry.h"
#include "engine/redis/slots.h"
#include "redis/cluster.h"
#include "redis/redis_server.h"
#include "redis/sentinel_set.h"
#include "service/limit_keeper.h"

namespace penstock::service {
namespace {

using engine::RegisteredLimit;
using engine::redis::RedisEngine;
using fixtures::WaitFor;

constexpr Micros kNever = Seconds(3'600);

engine::redis::Options OptionsOf(const std::string& url) {
  Result<engine::redis::Options> options = engine::redis::ParseUrl(url);
  if (!options) throw std::runtime_error(options.error().message);
  return std::move(*options);
}

// What a process has of limits: an engine, one loop, the keeper of limits, which asks every `poll`.
class Node {
 public:
  Node(const std::string& url, Micros poll) : engine_(OptionsOf(url), clock_) {
    loop_.Run([this, poll] {
      session_ = engine_.OpenLoop({loop_.loop(), loop_.loop(), &loop_.dialer()});
      keeper_ = std::make_unique<LimitKeeper>(KeeperParts{*session_, store_, clock_}, policy::BuildOptions{});
      keeper_->Follow(loop_.loop(), poll);
    });
  }
  ~Node() {
    loop_.Run([this] {
      session_->Close();
      keeper_.reset();
      session_.reset();
    });
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Sets a limit that admits so many; false where the engine did not answer.
  bool Put(int64_t capacity) {
    std::promise<bool> done;
    loop_.Run([&] {
      keeper_->Put("api", "l", "rate: " + std::to_string(capacity) + "/min", std::nullopt,
                   [&done](const Result<RegisteredLimit>& put) { done.set_value(put.has_value()); });
    });
    return done.get_future().get();
  }
  // What the limit admits on this node; 0: there is none.
  int64_t capacity() const {
    const PolicyPointer newest = store_.Newest();
    if (newest->policy == nullptr || newest->policy->limits().empty()) return 0;
    return newest->policy->limits().front()->params.capacity;
  }
  const engine::redis::HintStats& hints() const { return engine_.hints().stats(); }
  bool listens() const { return hints().listening == 1; }

 private:
  SystemClock clock_;
  RedisEngine engine_;
  Metrics metrics_;
  PolicyStore store_{metrics_};
  checkup::LoopThread loop_{clock_};
  // The loop's.
  std::unique_ptr<engine::EngineSession> session_;
  std::unique_ptr<LimitKeeper> keeper_;
};

// Three of them on one engine.
class HintsOnServers : public ::testing::Test {
 protected:
  void Start(const std::string& url, Micros poll = kNever) {
    for (std::unique_ptr<Node>& node : nodes_) node = std::make_unique<Node>(url, poll);
  }
  void AwaitListening() {
    for (const std::unique_ptr<Node>& node : nodes_) {
      WaitFor("a node that hears hints", [&] { return node->listens(); });
    }
  }
  // The first sets a limit, as soon as the engine answers; the others follow. How long after it was told so.
  Micros ChangeAndFollow() {
    ++capacity_;
    WaitFor("a change", [&] { return nodes_[0]->Put(capacity_); });
    const SteadyTime put = clock_.Steady();
    for (const std::unique_ptr<Node>& node : nodes_) {
      WaitFor("a node that follows", [&] {
        for (int i = 0; i < 20 && node->capacity() != capacity_; ++i)
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        return node->capacity() == capacity_;
      });
    }
    return clock_.Steady() - put;
  }
  uint64_t Subscribed() const {
    uint64_t sum = 0;
    for (const std::unique_ptr<Node>& node : nodes_) sum += node->hints().subscribed;
    return sum;
  }

  SystemClock clock_;
  std::unique_ptr<Node> nodes_[3];
  int64_t capacity_ = 100;
};

TEST_F(HintsOnServers, AChangeIsFollowedAtOnce) {
  fixtures::RedisServer server;
  Start(server.Url());
  AwaitListening();
  for (int i = 0; i < 10; ++i) ChangeAndFollow();
  std::vector<int64_t> took_us;  // for whoever reads the log: of changes that come alone
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(engine::redis::RedisRegistry::kHintPause.count));
    took_us.push_back(ChangeAndFollow().count);
  }
  std::sort(took_us.begin(), took_us.end());
  std::printf("a change was in force on the other nodes after %.1f ms, at most %.1f ms\n",
              static_cast<double>(took_us[5]) / 1e3, static_cast<double>(took_us.back()) / 1e3);
  for (const std::unique_ptr<Node>& node : nodes_) {
    WaitFor("the last hint, which the first node does not need",
            [&] { return node->hints().heard[0] == 20; });
  }
  const fixtures::ReplyValue channels = server.Connect().Must("PUBSUB", "CHANNELS");
  ASSERT_EQ(channels.items.size(), 1u) << channels.Text();
  EXPECT_EQ(channels[0].text, "pen:hints");
  EXPECT_EQ(Subscribed(), 3u);
}

TEST_F(HintsOnServers, WhatWasChangedWhileNobodyListenedIsFollowedOnceTheyDo) {
  fixtures::RedisServer server;
  fixtures::RedisClient admin = server.Connect();
  Start(server.Url());
  for (int i = 0; i < 5; ++i) {
    AwaitListening();
    admin.Must("CLIENT", "KILL", "TYPE", "pubsub");
    ChangeAndFollow();
  }
  AwaitListening();
  const uint64_t before = Subscribed();
  EXPECT_GE(before, 9u) << "each was cut off";
  for (int i = 0; i < 5; ++i) ChangeAndFollow();
  EXPECT_EQ(Subscribed(), before) << "by hints alone";
}

// A user with the rules of before there were hints, and one who loses them.
TEST_F(HintsOnServers, WithoutTheRightsNodesFollowByAsking) {
  fixtures::RedisServer server;
  fixtures::RedisClient admin = server.Connect();
  const auto rules = [&](const char* channels, const char* publish, const char* subscribe) {
    admin.Must("ACL", "SETUSER", "pen", "on", ">secret", "~pen:*", "resetchannels", channels, "-@all",
               "+ping", "+hello", "+client|setname", "+time", "+script|load", "+evalsha", "+hget", "+hmget",
               "+hset", "+zadd", "+zcard", "+zrangebyscore", "+get", "+set", publish, subscribe);
  };
  rules("resetchannels", "-publish", "-subscribe");
  const std::string url = "redis://pen:secret@127.0.0.1:" + std::to_string(server.port());
  Start(url, Millis(100));
  for (const std::unique_ptr<Node>& node : nodes_) {
    WaitFor("a refusal", [&] { return node->hints().refused > 0; });
    EXPECT_FALSE(node->listens());
  }
  for (int i = 0; i < 3; ++i) ChangeAndFollow();

  rules("&pen:*", "-publish", "+subscribe");
  Start(url, Millis(100));
  AwaitListening();
  ChangeAndFollow();
  for (const std::unique_ptr<Node>& node : nodes_) {
    EXPECT_EQ(node->hints().heard[0], 0u);
    EXPECT_EQ(node->hints().refused, 1u);
  }

  rules("&pen:*", "+publish", "+subscribe");
  Start(url, Millis(100));
  AwaitListening();
  rules("&pen:*", "+publish", "-subscribe");
  admin.Must("CLIENT", "KILL", "TYPE", "pubsub");
  for (const std::unique_ptr<Node>& node : nodes_)
    WaitFor("a refusal", [&] { return node->hints().refused > 0; });
  for (int i = 0; i < 3; ++i) ChangeAndFollow();
}

TEST_F(HintsOnServers, TheyGoWithTheMasterThatSentinelsName) {
  fixtures::SentinelSet set;
  Start(set.Url());
  AwaitListening();
  for (int i = 0; i < 3; ++i) ChangeAndFollow();
  set.WaitReplicas();
  set.Failover();
  ChangeAndFollow();
  WaitFor("nodes that listen to the new master", [&] {
    fixtures::RedisClient admin = set.master().Connect();
    return admin.Must("PUBSUB", "NUMSUB", "pen:hints")[1].integer == 3;
  });
  AwaitListening();
  for (int i = 0; i < 3; ++i) ChangeAndFollow();
}

TEST_F(HintsOnServers, AnyNodeOfAClusterHearsThem) {
  fixtures::Cluster cluster;
  Start(cluster.Url());
  AwaitListening();
  for (int i = 0; i < 3; ++i) ChangeAndFollow();
  const int slot = engine::redis::SlotOf("pen:{registry}");
  cluster.Failover(cluster.Owner(slot));
  ChangeAndFollow();
  cluster.WaitOk();
  AwaitListening();
  for (int i = 0; i < 3; ++i) ChangeAndFollow();
  cluster.KillMaster(cluster.Owner(slot));
  ChangeAndFollow();
  AwaitListening();
  for (int i = 0; i < 3; ++i) ChangeAndFollow();
}

}  // namespace
}  // namespace penstock::service
