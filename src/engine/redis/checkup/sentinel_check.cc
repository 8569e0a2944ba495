#include "engine/redis/checkup/sentinel_check.h"

#include <algorithm>
#include <map>

namespace penstock::checkup {
namespace {

// SENTINEL REPLICAS: those that could be promoted, and why the others could not.
size_t UsableReplicas(const Value& replicas, std::vector<std::string>& troubles) {
  size_t usable = 0;
  for (const Value& item : replicas.items) {
    const Fields fields = ParsePairs(item);
    const std::string_view flags = Text(fields, "flags");
    const bool down =
        flags.find("down") != std::string_view::npos || flags.find("disconnected") != std::string_view::npos;
    const bool never = Text(fields, "slave-priority") == "0";
    if (!down && !never && Text(fields, "master-link-status") != "err") {
      ++usable;
      continue;
    }
    troubles.push_back("replica " + std::string(Text(fields, "name")) + " cannot be promoted: " +
                       (never ? "its replica-priority is 0"
                              : "flags " + std::string(flags) + ", link to its master " +
                                    std::string(Text(fields, "master-link-status"))));
  }
  return usable;
}

void AddView(Finding& finding, const SentinelView& view) {
  if (view.master.empty()) {
    finding.figure = "a sentinel does not know the master's name";
    finding.Add(Status::kFailed, view.where, finding.figure,
                "a node that asks this sentinel first finds no server, and its vote is missing at a failover",
                "SENTINEL MONITOR at this sentinel, or correct the name in the engine's URL");
    return;
  }
  if (view.quorum.starts_with("NOQUORUM")) {
    finding.figure = "no quorum";
    finding.Add(Status::kFailed, view.where, view.quorum,
                "the sentinels that can be reached are too few: a master that fails is not replaced",
                "bring the missing sentinels back");
  }
  const std::string_view flags = Text(view.fields, "flags");
  if (flags.find("down") != std::string_view::npos) {
    finding.figure = "the master is down by a sentinel's account";
    finding.Add(Status::kFailed, view.where, "sees the master as " + std::string(flags),
                "this sentinel cannot reach the master, and would vote to replace it",
                "look into the network between them");
  }
  if (view.replicas.is_error()) {
    finding.Add(Status::kSkipped, view.where, "SENTINEL REPLICAS: " + view.replicas.text,
                "could not be asked: the sentinels' user may not list the replicas",
                "add +sentinel to the user that verify is at the sentinels");
    return;
  }
  std::vector<std::string> troubles;
  const size_t usable = UsableReplicas(view.replicas, troubles);
  if (usable == 0) {
    finding.figure = "no replica that could be promoted";
    finding.Add(Status::kFailed, view.where, finding.figure,
                "when the master fails nothing takes its place: limits go by on_failure until it is back",
                "add a replica, or bring it back");
  }
  for (const std::string& trouble : troubles) {
    finding.Add(Status::kWarning, view.where, trouble, "one server less to take the master's place",
                "bring the replica back");
  }
}

}  // namespace

Finding CheckSentinels(const std::vector<SentinelView>& sentinels, const std::string& master_name) {
  Finding finding("sentinel");
  std::map<std::string, size_t> masters;
  size_t answered = 0;
  for (const SentinelView& view : sentinels) {
    if (!view.refused.empty()) continue;
    ++answered;
    if (!view.master.empty()) ++masters[view.master];
  }
  finding.figure = std::to_string(answered) + " of " + std::to_string(sentinels.size()) + " sentinels answer";
  if (masters.size() == 1) {
    finding.figure += ", master " + master_name + " is " + masters.begin()->first;
    finding.Add(Status::kOk, "", finding.figure, "the sentinels agree and can replace the master");
  }
  const std::string all = finding.figure;
  for (const SentinelView& view : sentinels) {
    if (view.refused.empty()) AddView(finding, view);
  }
  for (const SentinelView& view : sentinels) {
    if (view.refused.empty()) continue;
    if (finding.status < Status::kWarning) finding.figure = all;
    finding.Add(Status::kWarning, view.where, view.refused,
                "a sentinel is missing: one more, and perhaps no quorum is left to replace a master",
                "bring it back, or SENTINEL RESET at the others if it has gone for good");
  }
  if (answered * 2 <= sentinels.size()) {
    finding.Add(Status::kFailed, "", all,
                "no majority of the sentinels answers: a master that fails is not replaced",
                "bring the missing sentinels back");
  }
  if (masters.size() > 1) {
    finding.figure = "sentinels name different masters";
    for (const auto& [master, count] : masters) {
      finding.Add(Status::kFailed, master, "is the master for " + std::to_string(count),
                  "nodes that ask different sentinels count in different servers: limits are exceeded",
                  "find the sentinels that are cut off; SENTINEL MASTER at each shows its view");
    }
  }
  if (sentinels.size() < 3) {
    finding.Add(
        Status::kWarning, "", std::to_string(sentinels.size()) + " sentinels",
        "fewer than three sentinels cannot survive the loss of one: a majority must elect who fails over",
        "run three sentinels on different machines");
  }
  return finding;
}

}  // namespace penstock::checkup
