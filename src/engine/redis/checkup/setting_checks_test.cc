#include "engine/redis/checkup/setting_checks.h"

#include <gtest/gtest.h>

#include "engine/redis/checkup/testing.h"

namespace penstock::checkup {
namespace {

using engine::redis::TopologyKind;

// A server as it should be.
ServerFacts Good() {
  ServerFacts server;
  server.where = "h:1";
  server.info = {{"redis_version", "7.0.15"}, {"used_memory", "1000000"},  {"role", "master"},
                 {"connected_slaves", "2"},   {"connected_clients", "10"}, {"rdb_last_bgsave_status", "ok"}};
  server.config = {
      {"maxmemory", "100000000"},     {"maxmemory-policy", "noeviction"}, {"save", "3600 1"},
      {"appendonly", "yes"},          {"appendfsync", "everysec"},        {"maxclients", "10000"},
      {"min-replicas-to-write", "1"}, {"replica-read-only", "yes"}};
  return server;
}

Deployment Of(ServerFacts server, TopologyKind kind = TopologyKind::kSingle) {
  Deployment deployment;
  deployment.kind = kind;
  deployment.servers.push_back(std::move(server));
  return deployment;
}

Deployment With(const char* name, const char* value, TopologyKind kind = TopologyKind::kSingle) {
  ServerFacts server = Good();
  server.config.insert_or_assign(name, value);
  return Of(server, kind);
}

Deployment WithInfo(const char* name, const char* value, TopologyKind kind = TopologyKind::kSingle) {
  ServerFacts server = Good();
  server.info.insert_or_assign(name, value);
  return Of(server, kind);
}

using Check = Finding (*)(const Deployment&);

void Expect(Check check, const Deployment& deployment, Status status) {
  const Finding finding = check(deployment);
  EXPECT_EQ(finding.status, status) << Show(finding);
  EXPECT_FALSE(finding.figure.empty() && status != Status::kSkipped) << finding.name;
  EXPECT_FALSE(finding.meaning.empty()) << finding.name;
  if (status == Status::kSkipped) return;  // what does not apply needs no remedy
  EXPECT_EQ(finding.remedy.empty(), status == Status::kOk) << finding.name << ": " << finding.remedy;
}

TEST(SettingChecksTest, AServerAsItShouldBeHasNoFinding) {
  for (const Check check : {&CheckVersion, &CheckEviction, &CheckMemory, &CheckPersistence, &CheckConnections,
                            &CheckReplication}) {
    Expect(check, Of(Good(), TopologyKind::kSentinel), Status::kOk);
  }
}

TEST(SettingChecksTest, Versions) {
  Expect(CheckVersion, WithInfo("redis_version", "4.0.10"), Status::kFailed);
  Expect(CheckVersion, WithInfo("redis_version", "6.2.14"), Status::kWarning);
  Expect(CheckVersion, WithInfo("redis_version", "10.0.0"), Status::kOk);
  const Finding valkey = CheckVersion(WithInfo("valkey_version", "8.1.1"));
  EXPECT_EQ(valkey.figure, "Valkey 8.1.1");
}

TEST(SettingChecksTest, EveryPolicyButNoevictionLosesBuckets) {
  for (const char* policy :
       {"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl"}) {
    Expect(CheckEviction, With("maxmemory-policy", policy), Status::kFailed);
  }
  Deployment unbounded = With("maxmemory-policy", "allkeys-lru");
  unbounded.servers[0].config["maxmemory"] = "0";
  Expect(CheckEviction, unbounded, Status::kWarning);
}

TEST(SettingChecksTest, WhatConfigMayNotSayInfoSays) {
  ServerFacts server = Good();
  server.config.clear();
  server.config_refused = "NOPERM this user has no permissions to run the 'config|get' command";
  server.info["maxmemory"] = "100000000";
  server.info["maxmemory_policy"] = "allkeys-lru";
  server.info["aof_enabled"] = "1";
  Expect(CheckEviction, Of(server), Status::kFailed);
  Expect(CheckMemory, Of(server), Status::kOk);
  Expect(CheckPersistence, Of(server), Status::kOk);
  // What neither says is skipped, and why.
  server.info.clear();
  server.info_refused = "NOPERM this user has no permissions to run the 'info' command";
  for (const Check check : {&CheckEviction, &CheckMemory, &CheckPersistence, &CheckConnections}) {
    Expect(check, Of(server), Status::kSkipped);
    EXPECT_NE(check(Of(server)).details.at(0).find("config|get"), std::string::npos);
  }
  Expect(CheckVersion, Of(server), Status::kSkipped);
  Expect(CheckReplication, Of(server, TopologyKind::kSentinel), Status::kSkipped);
}

TEST(SettingChecksTest, Memory) {
  Expect(CheckMemory, With("maxmemory", "0"), Status::kWarning);
  Expect(CheckMemory, WithInfo("used_memory", "74999999"), Status::kOk);
  Expect(CheckMemory, WithInfo("used_memory", "75000000"), Status::kWarning);
  Expect(CheckMemory, WithInfo("used_memory", "90000000"), Status::kFailed);
}

TEST(SettingChecksTest, Persistence) {
  Deployment none = With("appendonly", "no");
  none.servers[0].config["save"] = "";
  Expect(CheckPersistence, none, Status::kFailed);
  EXPECT_EQ(CheckPersistence(none).figure, "save \"\", appendonly no");
  const Deployment snapshots = With("appendonly", "no");
  Expect(CheckPersistence, snapshots, Status::kWarning);
  EXPECT_NE(CheckPersistence(snapshots).meaning.find("3600 s"), std::string::npos);
  Expect(CheckPersistence, With("appendfsync", "no"), Status::kWarning);
  Expect(CheckPersistence, With("appendfsync", "always"), Status::kOk);
  Expect(CheckPersistence, WithInfo("rdb_last_bgsave_status", "err"), Status::kFailed);
  Expect(CheckPersistence, WithInfo("aof_last_write_status", "err"), Status::kFailed);
}

TEST(SettingChecksTest, Connections) {
  Expect(CheckConnections, WithInfo("connected_clients", "7999"), Status::kOk);
  Expect(CheckConnections, WithInfo("connected_clients", "8000"), Status::kWarning);
}

TEST(SettingChecksTest, MastersNeedReplicasAtHand) {
  const TopologyKind kind = TopologyKind::kCluster;
  Expect(CheckReplication, With("min-replicas-to-write", "0", kind), Status::kWarning);
  Expect(CheckReplication, With("min-replicas-to-write", "3", kind), Status::kFailed);
  Expect(CheckReplication, With("min-replicas-to-write", "0"), Status::kOk);
  Expect(CheckReplication, WithInfo("connected_slaves", "0"), Status::kSkipped);
}

TEST(SettingChecksTest, Replicas) {
  Deployment deployment = Of(Good(), TopologyKind::kSentinel);
  ServerFacts replica = Good();
  replica.replica = true;
  replica.info["role"] = "slave";
  replica.info["master_link_status"] = "up";
  deployment.servers.push_back(replica);
  Expect(CheckReplication, deployment, Status::kOk);
  deployment.servers[1].info["master_link_status"] = "down";
  Expect(CheckReplication, deployment, Status::kFailed);
  deployment.servers[1] = replica;
  deployment.servers[1].config["replica-read-only"] = "no";
  Expect(CheckReplication, deployment, Status::kFailed);
  EXPECT_EQ(CheckReplication(deployment).figure, "replica-read-only no");
  // One server alone that is a replica refuses every decision.
  replica.info["master_host"] = "other";
  replica.info["master_port"] = "6379";
  const Finding alone = CheckReplication(Of(replica));
  EXPECT_EQ(alone.status, Status::kFailed);
  EXPECT_EQ(alone.remedy, "name its master other:6379");
}

TEST(SettingChecksTest, TheWorstServerIsTold) {
  Deployment deployment = Of(Good());
  deployment.servers.push_back(With("maxmemory-policy", "allkeys-lru").servers[0]);
  deployment.servers[1].where = "h:2";
  deployment.servers.push_back(Good());
  const Finding finding = CheckEviction(deployment);
  EXPECT_EQ(finding.status, Status::kFailed);
  EXPECT_EQ(finding.figure, "maxmemory-policy allkeys-lru");
  EXPECT_EQ(finding.details.at(1), "h:2: maxmemory-policy allkeys-lru");
}

}  // namespace
}  // namespace penstock::checkup
