// The Redis engine on servers of the tests' own: one, Sentinel, Cluster. Each is started by the first test that asks for
// it and emptied before every test; its scripts stand behind a clock that tests move (redis/script_clock.h). The engine
// is there as the documentation's user (redis/users.h), and every loop sees to it.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "engine/redis/redis_engine.h"
#include "harness.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "redis/cluster.h"
#include "redis/redis_server.h"
#include "redis/script_clock.h"
#include "redis/sentinel_set.h"
#include "redis/users.h"

namespace penstock::conformance {
namespace {

using fixtures::RedisClient;
using fixtures::RedisServer;

// The servers of one topology, for as long as the process lives.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::string Url() const = 0;

  // The clock goes too: set it then.
  void Empty() {
    for (RedisClient& client : clients_) client.Call("FLUSHALL");  // a replica refuses, and follows
  }
  void SetClock(EngineTime now) {
    std::string commands;
    for (const std::string_view key : fixtures::kScriptClockKeys)
      commands += fixtures::SetScriptClock(now, key);
    for (RedisClient& client : clients_) client.Send(commands);
    size_t set = 0;  // a replica refuses, and so does a cluster's node that has not the key
    for (RedisClient& client : clients_) {
      for (size_t i = 0; i < fixtures::kScriptClockKeys.size(); ++i)
        set += client.Receive().text == "OK" ? 1 : 0;
    }
    EXPECT_EQ(set, fixtures::kScriptClockKeys.size());
  }
  // Whoever is connected as an engine is connected as the user under test.
  void ExpectRestricted() const {
    std::set<std::string> users;
    for (const RedisServer* const server : servers_) users.merge(server->UsersOfNodes());
    EXPECT_EQ(users, std::set{fixtures::NodeUser().name});
  }

 protected:
  void Add(RedisServer& server) {
    servers_.push_back(&server);
    clients_.push_back(server.Connect());
  }

  // As strict limits need it; a replica that is slow for as long as that, on a machine that is busy, stops everything.
  void StopWhenCutOff() {
    for (RedisClient& client : clients_) {
      client.Must("CONFIG", "SET", "min-replicas-to-write", "1");
      client.Must("CONFIG", "SET", "min-replicas-max-lag", "20");
    }
  }

 private:
  std::vector<const RedisServer*> servers_;
  std::vector<RedisClient> clients_;  // of the default user
};

class SingleStore final : public Store {
 public:
  SingleStore() { Add(server_); }
  std::string Url() const override { return server_.Url(); }

 private:
  RedisServer server_;
};

// No server dies here, and one that is slow, on a machine that is busy, shall not be taken for dead.
constexpr const char* kLongAgo = "60000";

class SentinelStore final : public Store {
 public:
  SentinelStore() {
    for (size_t i = 0; i < set_.sentinels(); ++i) {
      set_.sentinel(i).Connect().Must("SENTINEL", "SET", fixtures::SentinelSet::kName,
                                      "down-after-milliseconds", kLongAgo);
    }
    for (size_t i = 0; i < set_.servers(); ++i) Add(set_.server(i));
    StopWhenCutOff();
    set_.WaitReplicas();
  }
  std::string Url() const override { return set_.Url(); }

 private:
  fixtures::SentinelSet set_;
};

class ClusterStore final : public Store {
 public:
  ClusterStore() {
    for (size_t i = 0; i < fixtures::Cluster::kNodes; ++i) {
      cluster_.node(i).Connect().Must("CONFIG", "SET", "cluster-node-timeout", kLongAgo);
    }
    for (size_t i = 0; i < fixtures::Cluster::kNodes; ++i) Add(cluster_.node(i));
    StopWhenCutOff();
  }
  std::string Url() const override { return cluster_.Url(); }

 private:
  fixtures::Cluster cluster_;
};

class RedisLoop final : public TestLoop {
 public:
  RedisLoop(engine::Engine& engine, const Clock& clock)
      : clock_(clock),
        loop_(clock),
        dialer_(net::NewDialer(loop_)),
        session_(engine.OpenLoop({loop_, loop_, dialer_.get()})) {
    WaitReady();
  }
  ~RedisLoop() override { session_->Close(); }

  engine::EngineSession& session() override { return *session_; }
  void LearnClock() override { WaitReady(); }
  SteadyTime deadline() const override { return clock_.Steady() + kDay * 3'650; }
  void RunUntil(const bool& done) override {
    const SteadyTime end = clock_.Steady() + kPatience;
    while (!done) {
      loop_.RunTurn();
      if (clock_.Steady() < end) continue;
      std::cerr << "a group was never handed to its sink" << std::endl;
      std::abort();  // what it would be handed to goes when this returns
    }
  }

 private:
  static constexpr Micros kPatience = Seconds(60);

  class Probe final : public engine::Sink {
   public:
    void Decided(engine::Batch&, engine::Group& group) noexcept override {
      fine &= group.result.state == engine::GroupState::kDecided;
      done = --open == 0;
    }
    int open = 0;
    bool fine = true;
    bool done = false;
  };

  // Looks at buckets that stand on all servers until all can be looked at.
  void WaitReady() {
    constexpr int kKeys = 32;
    const auto limit = MakeLimit("probe", Bucket(1, kMinute));
    session_->BindAdHoc(*limit);
    for (const SteadyTime end = clock_.Steady() + kPatience; clock_.Steady() < end;) {
      engine::Batch batch;
      Probe probe;
      probe.open = kKeys;
      for (int i = 0; i < kKeys; ++i) {
        const std::string text = std::to_string(i);
        const std::string_view key[] = {text};
        batch.AddGroup();
        batch.AddOperation(*limit, key);
      }
      session_->Decide(batch, deadline(), probe);
      RunUntil(probe.done);
      if (probe.fine) return;
      const SteadyTime again = clock_.Steady() + Millis(5);
      while (clock_.Steady() < again) loop_.RunTurn();
    }
    ADD_FAILURE() << "the store cannot be asked";
  }

  const Clock& clock_;
  net::Loop loop_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<engine::EngineSession> session_;
};

class RedisUnderTest final : public TestEngine {
 public:
  explicit RedisUnderTest(Store& store) : store_(store), engine_(MakeOptions(store), clock_) {
    SetLogLevel(LogLevel::kWarning);
    store_.Empty();
    SetNow(kStart);
  }

  engine::Engine& engine() override { return engine_; }
  EngineTime now() const override { return now_; }
  void SetNow(EngineTime now) override {
    now_ = now;
    store_.SetClock(now);
  }
  std::unique_ptr<TestLoop> OpenLoop() override {
    auto loop = std::make_unique<RedisLoop>(engine_, clock_);
    store_.ExpectRestricted();
    return loop;
  }
  bool keeps_order() const override { return false; }  // what goes to one script goes together
  bool in_one_place() const override {
    return engine_.options().topology != engine::redis::TopologyKind::kCluster;
  }

 private:
  static engine::redis::Options MakeOptions(const Store& store) {
    Result<engine::redis::Options> options = engine::redis::ParseUrl(store.Url());
    EXPECT_TRUE(options) << store.Url();
    options->script_prelude = fixtures::ScriptClock();
    return *std::move(options);
  }

  Store& store_;
  SystemClock clock_;
  engine::redis::RedisEngine engine_;
  EngineTime now_;
};

template <class Kind>
EngineFactory FactoryOf(const char* name) {
  return {name, []() -> std::unique_ptr<TestEngine> {
            static Kind store;
            return std::make_unique<RedisUnderTest>(store);
          }};
}

}  // namespace

std::vector<EngineFactory> EngineFactories() {
  return {FactoryOf<SingleStore>("redis"), FactoryOf<SentinelStore>("sentinel"),
          FactoryOf<ClusterStore>("cluster")};
}

}  // namespace penstock::conformance
