// The checks of who would take a master's place: sentinels, and a cluster's slots and replicas.
#include <gtest/gtest.h>

#include "engine/redis/checkup/cluster_check.h"
#include "engine/redis/checkup/sentinel_check.h"
#include "engine/redis/checkup/testing.h"

namespace penstock::checkup {
namespace {

Value Replica(const char* flags, const char* link = "ok", const char* priority = "100") {
  return Pairs({{"name", "h:2"},
                {"ip", "h"},
                {"port", "2"},
                {"flags", flags},
                {"master-link-status", link},
                {"slave-priority", priority}});
}

std::vector<SentinelView> GoodSentinels() {
  std::vector<SentinelView> views;
  for (const char* where : {"s:1", "s:2", "s:3"}) {
    views.push_back(
        {where, "", "h:1", {{"flags", "master"}}, List({Replica("slave")}), "OK 3 usable Sentinels."});
  }
  return views;
}

TEST(SentinelCheckTest, ThreeThatAgreeAreFine) {
  const Finding finding = CheckSentinels(GoodSentinels(), "main");
  EXPECT_EQ(finding.status, Status::kOk) << Show(finding);
  EXPECT_EQ(finding.figure, "3 of 3 sentinels answer, master main is h:1");
}

TEST(SentinelCheckTest, OneThatIsDownIsAWarning) {
  auto views = GoodSentinels();
  views[1] = {"s:2", "connection refused", "", {}, {}, ""};
  const Finding finding = CheckSentinels(views, "main");
  EXPECT_EQ(finding.status, Status::kWarning) << Show(finding);
  EXPECT_EQ(finding.figure, "2 of 3 sentinels answer, master main is h:1");
}

TEST(SentinelCheckTest, WithoutAMajorityNobodyIsReplaced) {
  auto views = GoodSentinels();
  for (const size_t i : {0, 2})
    views[i] = {"s:" + std::to_string(i + 1), "connection refused", "", {}, {}, ""};
  const Finding finding = CheckSentinels(views, "main");
  EXPECT_EQ(finding.status, Status::kFailed) << Show(finding);
}

TEST(SentinelCheckTest, WhatStopsAFailoverFails) {
  auto views = GoodSentinels();
  views[0].quorum =
      "NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified quorum";
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kFailed);
  views = GoodSentinels();
  views[2].master = "h:9";
  EXPECT_EQ(CheckSentinels(views, "main").figure, "sentinels name different masters");
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kFailed);
  views = GoodSentinels();
  views[2].master = "";
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kFailed);
  views = GoodSentinels();
  views[2].fields["flags"] = "master,s_down";
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kFailed);
}

TEST(SentinelCheckTest, AReplicaMustBeThereToBePromoted) {
  for (const Value& bad : {Replica("slave,s_down"), Replica("slave,disconnected"), Replica("slave", "err"),
                           Replica("slave", "ok", "0")}) {
    auto views = GoodSentinels();
    for (SentinelView& view : views) view.replicas = List({bad});
    EXPECT_EQ(CheckSentinels(views, "main").status, Status::kFailed) << Show(CheckSentinels(views, "main"));
    for (SentinelView& view : views) view.replicas = List({bad, Replica("slave")});
    EXPECT_EQ(CheckSentinels(views, "main").status, Status::kWarning) << Show(CheckSentinels(views, "main"));
  }
  auto views = GoodSentinels();
  for (SentinelView& view : views) view.replicas = List({});
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kFailed);
}

TEST(SentinelCheckTest, ReplicasThatMayNotBeListedAreNoMissingReplicas) {
  auto views = GoodSentinels();
  for (SentinelView& view : views) view.replicas = Failure("NOPERM this user has no permissions");
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kSkipped) << Show(CheckSentinels(views, "main"));
}

TEST(SentinelCheckTest, FewerThanThreeAreTooFew) {
  auto views = GoodSentinels();
  views.pop_back();
  EXPECT_EQ(CheckSentinels(views, "main").status, Status::kWarning);
}

Value Node(const char* host, int64_t port) {
  return List({Bulk(host), Whole(port), Bulk("id" + std::to_string(port)), List({})});
}

Value GoodSlots() {
  return List({List({Whole(0), Whole(5'460), Node("h", 1), Node("h", 4)}),
               List({Whole(5'461), Whole(10'922), Node("h", 2), Node("h", 5)}),
               List({Whole(10'923), Whole(16'383), Node("h", 3), Node("h", 6)})});
}

std::vector<ClusterView> Views(const Value& slots) {
  std::vector<ClusterView> views;
  for (const char* where : {"h:1", "h:2", "h:3"}) {
    views.push_back({where, true, "", ParseSlots(slots, where), {{"cluster_state", "ok"}}});
  }
  return views;
}

TEST(ClusterCheckTest, SlotsAreRead) {
  const auto slots = ParseSlots(
      List({List({Whole(0), Whole(1), Node("", 1), Node("h", 4)}), List({Whole(5), Whole(3), Node("h", 1)}),
            List({Whole(5), Whole(16'384), Node("h", 1)}), List({}), Bulk("x")}),
      "asked:7000");
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].master, (ClusterNode{"asked:1", "id1"}));
  EXPECT_EQ(slots[0].replicas.at(0).where, "h:4");
}

TEST(ClusterCheckTest, AWholeClusterIsFine) {
  EXPECT_EQ(CheckSlots(Views(GoodSlots())).status, Status::kOk) << Show(CheckSlots(Views(GoodSlots())));
  EXPECT_EQ(CheckClusterReplicas(Views(GoodSlots())).status, Status::kOk);
}

TEST(ClusterCheckTest, ReplicasAreThoseThatTheNodesSayAreUp) {
  std::vector<SlotRange> slots = ParseSlots(GoodSlots(), "h:1");
  TakeReplicas(
      "id1 h:1@11 myself,master - 0 0 1 connected 0-5460\n"
      "id2 h:2@12 master - 0 0 2 connected 5461-10922\n"
      "id4 :4@14 slave id1 0 0 1 connected\n"
      "id5 h:5@15,name slave,fail? id2 0 0 2 connected\n"
      "id6 h:6@16 slave id3 0 0 3 disconnected\n"
      "id7 h:7@17 slave id3 0 0 3 connected\n"
      "broken\n",
      "asked:1", slots);
  EXPECT_EQ(slots[0].replicas, (std::vector<ClusterNode>{{"asked:4", "id4"}}));
  EXPECT_EQ(slots[1].replicas, (std::vector<ClusterNode>{}));
  EXPECT_EQ(slots[2].replicas, (std::vector<ClusterNode>{{"h:7", "id7"}}));
}

TEST(ClusterCheckTest, AMissingSlotIsNamed) {
  Value slots = GoodSlots();
  slots.items[1].items[0] = Whole(5'463);
  slots.items[2].items[1] = Whole(16'382);
  const Finding finding = CheckSlots(Views(slots));
  EXPECT_EQ(finding.status, Status::kFailed);
  EXPECT_EQ(finding.figure, "16381 of 16384 slots served, 3 nodes");
  EXPECT_EQ(finding.details.at(0), "h:1: nobody serves 5461-5462, 16383");
}

TEST(ClusterCheckTest, NodesThatDisagreeOrFail) {
  auto views = Views(GoodSlots());
  views[1].slots[0].master.id = "other";
  EXPECT_EQ(CheckSlots(views).status, Status::kWarning);
  views = Views(GoodSlots());
  views[1].info["cluster_state"] = "fail";
  EXPECT_EQ(CheckSlots(views).status, Status::kFailed);
  views = Views(GoodSlots());
  views[1].info["cluster_slots_fail"] = "5462";
  EXPECT_EQ(CheckSlots(views).status, Status::kFailed);
  views = Views(GoodSlots());
  views[1].refused = "connection refused";
  EXPECT_EQ(CheckSlots(views).status, Status::kFailed);
  views[1].master = false;
  EXPECT_EQ(CheckSlots(views).status, Status::kWarning);
}

TEST(ClusterCheckTest, AMasterWithoutReplicaIsNamed) {
  Value slots = GoodSlots();
  slots.items[2].items.pop_back();
  const Finding finding = CheckClusterReplicas(Views(slots));
  EXPECT_EQ(finding.status, Status::kFailed);
  EXPECT_EQ(finding.figure, "3 masters, 1 without replica");
  slots.items.pop_back();
  EXPECT_EQ(CheckClusterReplicas(Views(slots)).status, Status::kWarning);
}

TEST(ClusterCheckTest, NodesThatMayNotBeAskedAreSkipped) {
  auto views = Views(GoodSlots());
  for (ClusterView& view : views) view.refused = "NOPERM";
  EXPECT_EQ(CheckSlots(views).status, Status::kSkipped);
  EXPECT_EQ(CheckClusterReplicas(views).status, Status::kSkipped);
}

TEST(ClusterCheckTest, FullCoverage) {
  Deployment deployment;
  deployment.servers.resize(2);
  deployment.servers[0].config["cluster-require-full-coverage"] = "no";
  deployment.servers[1].config["cluster-require-full-coverage"] = "no";
  EXPECT_EQ(CheckFullCoverage(deployment).status, Status::kOk);
  deployment.servers[1].config["cluster-require-full-coverage"] = "yes";
  EXPECT_EQ(CheckFullCoverage(deployment).status, Status::kWarning);
  deployment.servers[1].config.clear();
  EXPECT_EQ(CheckFullCoverage(deployment).status, Status::kSkipped);
}

}  // namespace
}  // namespace penstock::checkup
