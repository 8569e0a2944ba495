#include "redis/sentinel_set.h"

#include <algorithm>
#include <chrono>

#include "redis/fixture_error.h"
#include "redis/users.h"

namespace penstock::fixtures {
namespace {

constexpr int kSentinels = 3;
constexpr int kQuorum = 2;

bool IsMaster(RedisServer& server) {
  return server.running() && server.Connect().Call("ROLE")[0].text == "master";
}

std::string At(uint16_t port) { return " 127.0.0.1 " + std::to_string(port); }

// 40 hexadecimal digits that no other sentinel has.
std::string RunId(int number) {
  std::string id(40, 'a');
  id.back() = static_cast<char>('0' + number);
  return id;
}

// Shortens what a sentinel waits for by itself, above all the 10 s after which it looks at a replica again and the 8 s
// for which it leaves a master that came back as it is.
void Hasten(RedisServer& sentinel) {
  sentinel.Connect().Must("SENTINEL", "DEBUG", "info-period", 200, "ping-period", 100, "ask-period", 100,
                          "publish-period", 200, "min-link-reconnect-period", 100, "election-timeout", 1'000);
}

}  // namespace

SentinelSet::SentinelSet(int replicas, std::vector<std::string> lines) {
  servers_.push_back(std::make_unique<RedisServer>(RedisServer::Kind::kServer, lines));
  const uint16_t first = servers_[0]->port();
  lines.push_back("replicaof" + At(first));
  for (int i = 0; i < replicas; ++i) {
    servers_.push_back(std::make_unique<RedisServer>(RedisServer::Kind::kServer, lines));
  }
  for (const auto& server : servers_) server->WaitReady();
  WaitReplicas();

  std::vector<std::string> watch{
      std::string("sentinel monitor ") + kName + At(first) + " " + std::to_string(kQuorum),
      std::string("sentinel down-after-milliseconds ") + kName + " 700",
      std::string("sentinel failover-timeout ") + kName + " 2000",
  };
  for (int i = 1; i <= replicas; ++i) {
    watch.push_back(std::string("sentinel known-replica ") + kName +
                    At(servers_[static_cast<size_t>(i)]->port()));
  }
  // Each is told of the others when it starts: by themselves they would take seconds to meet.
  for (int i = 0; i < kSentinels; ++i) {
    std::vector<std::string> own = watch;
    own.insert(own.begin(), "sentinel myid " + RunId(i));
    for (int j = 0; j < i; ++j) {
      own.push_back(std::string("sentinel known-sentinel ") + kName +
                    At(sentinels_[static_cast<size_t>(j)]->port()) + " " + RunId(j));
    }
    sentinels_.push_back(std::make_unique<RedisServer>(RedisServer::Kind::kSentinel, own));
  }
  for (const auto& sentinel : sentinels_) {
    sentinel->WaitReady();
    Hasten(*sentinel);
  }
  WaitFor("sentinels that know all", [&] {
    return std::ranges::all_of(sentinels_, [&](const auto& sentinel) {
      RedisClient client = sentinel->Connect();
      return client.Must("SENTINEL", "SENTINELS", kName).items.size() == kSentinels - 1 &&
             client.Must("SENTINEL", "REPLICAS", kName).items.size() == static_cast<size_t>(replicas) &&
             client.Call("SENTINEL", "CKQUORUM", kName).text.starts_with("OK");
    });
  });
}

RedisServer& SentinelSet::master() {
  RedisServer* found = nullptr;
  WaitFor("a master", [&] {
    const std::string named =
        sentinels_[0]->Connect().Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", kName)[1].text;
    for (const auto& server : servers_) {
      if (std::to_string(server->port()) == named && IsMaster(*server)) found = server.get();
    }
    return found != nullptr;
  });
  return *found;
}

bool SentinelSet::Replaced(const RedisServer& old) {
  std::vector<std::string> named;
  for (const auto& sentinel : sentinels_) {
    if (!sentinel->running()) continue;
    named.push_back(sentinel->Connect().Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", kName)[1].text);
  }
  if (named.empty() || named[0] == std::to_string(old.port())) return false;
  if (std::ranges::any_of(named, [&](const std::string& other) { return other != named[0]; })) return false;
  return std::ranges::any_of(servers_, [&](const auto& server) {
    return std::to_string(server->port()) == named[0] && IsMaster(*server);
  });
}

void SentinelSet::WaitReplaced(const RedisServer& old) {
  WaitFor("a new master", [&] { return Replaced(old); });
}

void SentinelSet::Failover() {
  const RedisServer& old = master();
  // Refused while the last failover is young, or before the replicas' state is known; and one that a busy machine let
  // take too long is given up by the sentinels, and never begun again while the master lives.
  constexpr auto kGivenUpAfter = std::chrono::seconds(5);
  std::chrono::steady_clock::time_point begun{};
  WaitFor("a new master", [&] {
    if (Replaced(old)) return true;
    if (std::chrono::steady_clock::now() - begun < kGivenUpAfter) return false;
    if (sentinels_[0]->Connect().Call("SENTINEL", "FAILOVER", kName).text == "OK") {
      begun = std::chrono::steady_clock::now();
    }
    return false;
  });
}

RedisServer& SentinelSet::KillMaster() {
  RedisServer& old = master();
  old.Kill();
  WaitReplaced(old);
  return old;
}

void SentinelSet::WaitReplicas() {
  WaitFor("replicas that follow", [&] {
    int64_t end = -1;
    size_t following = 0;
    size_t living = 0;
    for (const auto& server : servers_) living += server->running() ? 1 : 0;
    for (const auto& server : servers_) {
      if (!server->running()) continue;
      const ReplyValue role = server->Connect().Must("ROLE");
      if (role[0].text == "master") end = role[1].integer;
    }
    for (const auto& server : servers_) {
      if (!server->running()) continue;
      const ReplyValue role = server->Connect().Must("ROLE");
      following += role[0].text == "slave" && role[3].text == "connected" && role[4].integer >= end ? 1 : 0;
    }
    return end >= 0 && following + 1 == living;
  });
}

std::string SentinelSet::Url() const {
  std::string url = "redis+sentinel://" + NodeUser().LogIn();
  for (const auto& sentinel : sentinels_) {
    if (sentinel != sentinels_[0]) url += ",";
    url += "127.0.0.1:" + std::to_string(sentinel->port());
  }
  const User& user = SentinelUser();
  return url + "/" + kName + "?sentinel_user=" + user.name + "&sentinel_password=" + user.password;
}

}  // namespace penstock::fixtures
