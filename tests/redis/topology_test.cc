// The topologies of the Redis engine on real servers, under load, while a master is replaced, killed, or a slot moves.
//
// The load counts: what was answered ran once, what is of unknown fate at most once, what was refused never. Where no
// data is lost by the servers, the counters they hold prove it. It logs in as the users of the documentation.
#include "engine/redis/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/redis/script.h"
#include "engine/redis/slots.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "redis/cluster.h"
#include "redis/redis_server.h"
#include "redis/sentinel_set.h"
#include "redis/users.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

using fixtures::WaitFor;

// Two keys, so that a slot on the move answers TRYAGAIN when it has one of them.
constexpr std::string_view kCountText =
    "local n for i = 2, 1, -1 do n = (redis.call('GET', KEYS[i]) or 0) + 1 redis.call('SET', KEYS[i], n) end "
    "return n";
const Script kCount = {"count", std::string(kCountText), Sha1(kCountText)};
constexpr Micros kPatience = Millis(100);
constexpr Micros kEvery = Millis(2);

struct Tally {
  int64_t sent = 0;
  int64_t replied = 0;
  int64_t errors = 0;   // replies that are none of ours
  int64_t not_run = 0;  // refused, by us or by the server
  int64_t unknown = 0;
  int64_t in_flight = 0;
  SteadyTime last_reply{};
  Micros longest_gap{};  // between two replies
  SteadyTime gap_end{};
  std::string last_error;
};

class Call final : public Exchange {
 public:
  Call(Tally& tally, const Clock& clock, std::string_view tag, SteadyTime until)
      : tally_(tally), clock_(clock) {
    slot = SlotOf(tag);
    deadline = until;
    const std::string first = "pen:{" + std::string(tag) + "}a";
    const std::string second = "pen:{" + std::string(tag) + "}b";
    resp::AppendCommand(text_, {"EVALSHA", kCount.sha1, "2", first, second});
  }
  std::string_view command() const noexcept override { return text_; }
  const Script* script() const noexcept override { return &kCount; }
  void Expired() noexcept override {}
  void Done(const Reply& reply) noexcept override {
    EXPECT_FALSE(done_) << "done twice";
    done_ = true;
    --tally_.in_flight;
    if (reply.fate == Fate::kUnknown) {
      ++tally_.unknown;
    } else if (reply.fate == Fate::kNotRun) {
      ++tally_.not_run;
    } else if (reply.nodes.front().type == resp::ReplyType::kError) {
      ++tally_.errors;
      tally_.last_error = reply.nodes.front().text;
    } else {
      ++tally_.replied;
      const SteadyTime now = clock_.Steady();
      if (tally_.last_reply.us != 0 && now - tally_.last_reply > tally_.longest_gap) {
        tally_.longest_gap = now - tally_.last_reply;
        tally_.gap_end = now;
      }
      tally_.last_reply = now;
    }
  }

 private:
  Tally& tally_;
  const Clock& clock_;
  std::string text_;
  bool done_ = false;
};

// A loop of its own with a topology, and a load that never stops asking.
class Load {
 public:
  Load(const std::string& url, std::vector<std::string> tags)
      : tags_(std::move(tags)), tallies_(tags_.size()) {
    net::PrepareProcess();
    Result<Options> options = ParseUrl(url);
    if (!options) throw std::runtime_error(options.error().message);
    options_ = std::move(*options);
    thread_ = std::thread([this] { loop_.Run(); });
    OnLoop([this] {
      topology_ = OpenTopology({*dialer_, loop_, loop_, clock_, {&kCount, 1}}, options_, &counters_);
      Tick();
    });
  }
  ~Load() {
    OnLoop([this] {
      loop_.Cancel(timer_);
      topology_.reset();
    });
    loop_.Stop();
    thread_.join();
  }

  void OnLoop(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  Tally Of(size_t tag) {
    Tally out;
    OnLoop([&] { out = tallies_[tag]; });
    return out;
  }
  // Until every tag is answered a hundred times from now on.
  void AwaitService(std::chrono::seconds at_most = std::chrono::seconds(20)) {
    for (size_t tag = 0; tag < tags_.size(); ++tag) {
      const int64_t before = Of(tag).replied;
      WaitFor(
          "service of " + tags_[tag], [&] { return Of(tag).replied >= before + 100; }, at_most);
    }
  }
  // No further questions; waits for the last answers.
  void Stop() {
    OnLoop([this] { stopped_ = true; });
    for (size_t tag = 0; tag < tags_.size(); ++tag) {
      WaitFor("the last answers", [&] { return Of(tag).in_flight == 0; });
    }
  }
  std::string Trouble() {
    std::string out;
    OnLoop([&] { out = topology_->trouble(); });
    return out;
  }
  const TopologyCounters& counters() const { return counters_; }
  std::vector<LinkInfo> Links() {
    std::vector<LinkInfo> out;
    OnLoop([&] { out = topology_->Links(); });
    return out;
  }

 private:
  void Tick() {
    if (stopped_) return;
    const SteadyTime now = clock_.Steady();
    for (size_t tag = 0; tag < tags_.size(); ++tag) {
      Call& call = calls_.emplace_back(tallies_[tag], clock_, tags_[tag], now + kPatience);
      ++tallies_[tag].sent;
      ServerLink* const link = topology_->LinkFor(call.slot);
      if (link == nullptr || link->Send(call) != Reason::kNone) {
        ++tallies_[tag].not_run;
      } else {
        ++tallies_[tag].in_flight;
      }
    }
    timer_ = loop_.Schedule(now + kEvery, [this] { Tick(); });
  }

  const std::vector<std::string> tags_;
  SystemClock clock_;
  net::Loop loop_{clock_};
  std::unique_ptr<Dialer> dialer_ = net::NewDialer(loop_);
  Options options_;
  TopologyCounters counters_;
  // The loop's.
  std::vector<Tally> tallies_;
  std::deque<Call> calls_;
  std::unique_ptr<Topology> topology_;
  Timer::Id timer_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

// For whoever reads the log: how long nobody was answered, and how long after the servers were ready that ended.
void Report(const Tally& tally, SteadyTime ready = {}) {
  std::printf("%s: %lld answered, %lld not run, %lld unknown; longest silence %lld ms",
              ::testing::UnitTest::GetInstance()->current_test_info()->name(),
              static_cast<long long>(tally.replied), static_cast<long long>(tally.not_run),
              static_cast<long long>(tally.unknown), static_cast<long long>(tally.longest_gap.count / 1'000));
  if (ready.us != 0) {
    std::printf(", until %lld ms after the servers were ready",
                static_cast<long long>((tally.gap_end - ready).count / 1'000));
  }
  std::printf("\n");
}

int64_t Stored(fixtures::RedisServer& server, const std::string& tag) {
  const fixtures::ReplyValue reply = server.Connect().Must("GET", "pen:{" + tag + "}a");
  return reply.is_null() ? 0 : std::stoll(reply.text);
}

// What was answered ran once, what is unknown once or never, the rest never.
void ExpectCounted(const Tally& tally, int64_t stored) {
  EXPECT_EQ(tally.errors, 0) << tally.last_error;
  EXPECT_GE(stored, tally.replied);
  EXPECT_LE(stored, tally.replied + tally.unknown);
  EXPECT_EQ(tally.sent, tally.replied + tally.errors + tally.not_run + tally.unknown);
}

TEST(TopologyOnRealServers, OneServer) {
  fixtures::RedisServer server;
  Load load(server.Url(), {"x"});
  load.AwaitService();
  EXPECT_EQ(load.Trouble(), "");
  server.Kill();
  server.Start();
  load.AwaitService();
  load.Stop();
  EXPECT_EQ(load.Of(0).errors, 0);
}

TEST(TopologyOnRealServers, SentinelFollowsAnOrderlyFailover) {
  fixtures::SentinelSet set;
  Load load(set.Url(), {"x"});
  load.AwaitService();
  set.Failover();
  load.AwaitService();
  EXPECT_EQ(load.Trouble(), "");
  EXPECT_GE(load.counters().changes.load(), 2u);
  load.Stop();
  const Tally tally = load.Of(0);
  Report(tally);
  EXPECT_EQ(tally.errors, 0) << tally.last_error;
  // Replication is asynchronous: what the old master took at last may be gone, but nothing is there twice.
  EXPECT_LE(Stored(set.master(), "x"), tally.replied + tally.unknown);
}

TEST(TopologyOnRealServers, SentinelFollowsADeath) {
  fixtures::SentinelSet set;
  Load load(set.Url(), {"x"});
  load.AwaitService();
  fixtures::RedisServer& dead = set.KillMaster();
  const SteadyTime ready = SystemClock().Steady();
  load.AwaitService(std::chrono::seconds(10));
  dead.Start();
  set.WaitReplicas();
  load.AwaitService();
  load.Stop();
  const Tally tally = load.Of(0);
  Report(tally, ready);
  EXPECT_EQ(tally.errors, 0) << tally.last_error;
  EXPECT_LE(Stored(set.master(), "x"), tally.replied + tally.unknown);
}

TEST(TopologyOnRealServers, SentinelsMayAllBeGoneWhileTheMasterLives) {
  fixtures::SentinelSet set;
  fixtures::RedisServer& master = set.master();
  Load load(set.Url(), {"x"});
  load.AwaitService();
  for (size_t i = 0; i < set.sentinels(); ++i) set.sentinel(i).Kill();
  load.AwaitService();
  load.Stop();
  ExpectCounted(load.Of(0), Stored(master, "x"));
}

// A tag in each third of the slots.
std::vector<std::string> Thirds() {
  return {std::string(TagOfSlot(100)), std::string(TagOfSlot(8'000)), std::string(TagOfSlot(16'000))};
}

TEST(TopologyOnRealServers, ClusterMovesASlotUnderLoad) {
  fixtures::Cluster cluster;
  const std::vector<std::string> tags = Thirds();
  Load load(cluster.Url(), tags);
  load.AwaitService();
  EXPECT_EQ(load.Trouble(), "");
  for (int round = 0; round < 3; ++round) {
    const size_t from = cluster.Owner(100);
    const size_t to = cluster.Owner(16'000) == from ? cluster.Owner(8'000) : cluster.Owner(16'000);
    cluster.BeginMigration(100, from, to);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cluster.MoveKeys(100, from, to, 1);  // one of two keys: TRYAGAIN
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cluster.MoveKeys(100, from, to, 100);  // both: ASK
    load.AwaitService();
    cluster.EndMigration(100, to);  // MOVED
    load.AwaitService();
  }
  load.Stop();
  for (size_t i = 0; i < tags.size(); ++i) {
    const int slot = SlotOf(tags[i]);
    ExpectCounted(load.Of(i), Stored(cluster.node(cluster.Owner(slot)), tags[i]));
  }
  Report(load.Of(0));
  // The slots that did not move were served all the time but for the first moments.
  EXPECT_EQ(load.Of(1).unknown, 0);
  EXPECT_EQ(load.Of(2).unknown, 0);
  EXPECT_GE(load.counters().moved.load(), 1u);
  EXPECT_GE(load.counters().asked.load(), 1u);
  EXPECT_GE(load.counters().try_again.load(), 1u);
}

TEST(TopologyOnRealServers, ClusterFollowsAnOrderlyFailover) {
  fixtures::Cluster cluster;
  const std::vector<std::string> tags = Thirds();
  Load load(cluster.Url(), tags);
  load.AwaitService();
  const size_t heir = cluster.Failover(cluster.Owner(100));
  load.AwaitService();
  EXPECT_EQ(cluster.Owner(100), heir);
  load.Stop();
  Report(load.Of(0));
  // The old master stops its clients until its heir has all: nothing is lost.
  for (size_t i = 0; i < tags.size(); ++i) {
    ExpectCounted(load.Of(i), Stored(cluster.node(cluster.Owner(SlotOf(tags[i]))), tags[i]));
  }
}

TEST(TopologyOnRealServers, ClusterFollowsADeath) {
  fixtures::Cluster cluster;
  const std::vector<std::string> tags = Thirds();
  Load load(cluster.Url(), tags);
  load.AwaitService();
  const size_t dead = cluster.Owner(100);
  const size_t heir = cluster.KillMaster(dead);
  const SteadyTime ready = SystemClock().Steady();
  load.AwaitService(std::chrono::seconds(10));
  EXPECT_EQ(load.Trouble(), "");
  cluster.node(dead).Start();
  cluster.WaitOk();
  load.AwaitService();
  load.Stop();
  const Tally tally = load.Of(0);
  Report(tally, ready);
  EXPECT_EQ(tally.errors, 0) << tally.last_error;
  EXPECT_LE(Stored(cluster.node(heir), tags[0]), tally.replied + tally.unknown);
  for (size_t i = 1; i < tags.size(); ++i) {
    ExpectCounted(load.Of(i), Stored(cluster.node(cluster.Owner(SlotOf(tags[i]))), tags[i]));
  }
}

// Its connections stand and the kernel takes what is sent: nothing says that it is gone but time.
TEST(TopologyOnRealServers, ClusterFollowsAMasterThatFreezes) {
  fixtures::Cluster cluster;
  const std::vector<std::string> tags = Thirds();
  Load load(cluster.Url(), tags);
  load.AwaitService();
  const size_t frozen = cluster.Owner(100);
  const size_t heir = cluster.ReplicaOf(frozen);
  cluster.node(frozen).Freeze();
  WaitFor("the heir", [&] { return cluster.node(heir).Connect().Must("ROLE")[0].text == "master"; });
  const SteadyTime ready = SystemClock().Steady();
  load.AwaitService(std::chrono::seconds(10));
  cluster.node(frozen).Thaw();
  cluster.WaitOk();
  load.AwaitService();
  load.Stop();
  const Tally tally = load.Of(0);
  Report(tally, ready);
  EXPECT_EQ(tally.errors, 0) << tally.last_error;
  EXPECT_LE(Stored(cluster.node(heir), tags[0]), tally.replied + tally.unknown);
  for (size_t i = 1; i < tags.size(); ++i) {
    ExpectCounted(load.Of(i), Stored(cluster.node(cluster.Owner(SlotOf(tags[i]))), tags[i]));
  }
}

// --- Who it is ---

TEST(TopologyOnRealServers, SentinelsAreSubscribedToAsTheirUser) {
  fixtures::SentinelSet set;
  Load load(set.Url(), {"x"});
  load.AwaitService();
  const std::string user = " user=" + fixtures::SentinelUser().name + " ";
  WaitFor("a subscription", [&] {
    for (size_t i = 0; i < set.sentinels(); ++i) {
      const std::string clients = set.sentinel(i).Connect().Must("CLIENT", "LIST").text;
      for (size_t at = clients.find(" sub=1"); at != std::string::npos; at = clients.find(" sub=1", at + 1)) {
        const size_t line = clients.rfind('\n', at) + 1;
        if (clients.substr(line, clients.find('\n', at) - line).find(user) != std::string::npos) return true;
      }
    }
    return false;
  });
  EXPECT_EQ(set.master().UsersOfNodes(), std::set{fixtures::NodeUser().name});
  load.Stop();
  EXPECT_EQ(load.counters().failed_refreshes.load(), 0u);
}

TEST(TopologyOnRealServers, AClusterIsServedAsTheNodesUser) {
  fixtures::Cluster cluster;
  Load load(cluster.Url(), Thirds());
  load.AwaitService();
  for (size_t i = 0; i < fixtures::Cluster::kMasters; ++i) {
    EXPECT_EQ(cluster.node(i).UsersOfNodes(), std::set{fixtures::NodeUser().name});
  }
}

TEST(TopologyOnRealServers, AServerThatIsNoClusterIsNamed) {
  fixtures::RedisServer server;
  const std::string_view plain = "redis";
  Load load("redis+cluster" + server.Url().substr(plain.size()), {"x"});
  WaitFor("the reason", [&] { return load.Trouble().find("redis://") != std::string::npos; });
}

TEST(TopologyOnRealServers, AClusterBehindAPlainUrlIsNamed) {
  fixtures::Cluster cluster;
  Load load(cluster.node(0).Url(), {std::string(TagOfSlot(16'000))});
  WaitFor("the reason", [&] { return load.Trouble().find("redis+cluster://") != std::string::npos; });
}

}  // namespace
}  // namespace penstock::engine::redis
