#include "engine/redis/checkup/cluster_check.h"

#include <algorithm>
#include <map>

#include "engine/redis/slots.h"

namespace penstock::checkup {
namespace {

using engine::redis::kSlotCount;

// Up to the separator, which is taken away too.
std::string_view Cut(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return head;
}

ClusterNode ParseNode(const Value& node, std::string_view asked) {
  std::string host = node.At(0).text;
  if (host.empty() || host == "?") host = asked.substr(0, asked.rfind(':'));
  return {host + ":" + std::to_string(node.At(1).integer), node.At(2).text};
}

// Who serves each slot in a view; null where nobody.
std::vector<const ClusterNode*> OwnersOf(const std::vector<SlotRange>& slots) {
  std::vector<const ClusterNode*> owners(kSlotCount, nullptr);
  for (const SlotRange& range : slots) {
    for (int32_t slot = range.first; slot <= range.last; ++slot)
      owners[static_cast<size_t>(slot)] = &range.master;
  }
  return owners;
}

// 0-99, 200: those that nobody serves.
std::string Missing(const std::vector<const ClusterNode*>& owners, size_t& count) {
  constexpr size_t kMaxText = 200;
  std::string out;
  for (size_t i = 0; i < owners.size();) {
    if (owners[i] != nullptr) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < owners.size() && owners[end] == nullptr) ++end;
    count += end - i;
    if (out.size() < kMaxText) {
      out += (out.empty() ? "" : ", ") + std::to_string(i);
      if (end - i > 1) out += "-" + std::to_string(end - 1);
    }
    i = end;
  }
  return out;
}

const ClusterView* FirstAnswer(const std::vector<ClusterView>& views) {
  const auto found =
      std::find_if(views.begin(), views.end(), [](const ClusterView& v) { return v.refused.empty(); });
  return found == views.end() ? nullptr : &*found;
}

Finding NothingAsked(const char* name, const std::vector<ClusterView>& views) {
  Finding finding(name);
  finding.figure = "not known";
  for (const ClusterView& view : views) {
    finding.Add(Status::kSkipped, view.where, view.refused, "could not be asked: no node tells its slots",
                "add +cluster|slots and +cluster|info to the user that verify runs as");
  }
  return finding;
}

}  // namespace

std::vector<SlotRange> ParseSlots(const Value& reply, std::string_view asked) {
  std::vector<SlotRange> out;
  for (const Value& item : reply.items) {
    const int64_t first = item.At(0).integer;
    const int64_t last = item.At(1).integer;
    if (item.items.size() < 3 || first < 0 || last < first || last >= kSlotCount) continue;
    SlotRange range{
        static_cast<int32_t>(first), static_cast<int32_t>(last), ParseNode(item.At(2), asked), {}};
    for (size_t i = 3; i < item.items.size(); ++i) range.replicas.push_back(ParseNode(item.At(i), asked));
    out.push_back(std::move(range));
  }
  return out;
}

void TakeReplicas(std::string_view nodes, std::string_view asked, std::vector<SlotRange>& slots) {
  std::map<std::string, std::vector<ClusterNode>, std::less<>> replicas;  // by the master's id
  while (!nodes.empty()) {
    // id host:port@bus[,name] flags master ping pong epoch link slots…
    std::string_view line = Cut(nodes, '\n');
    const std::string_view id = Cut(line, ' ');
    std::string_view address = Cut(line, ' ');
    const std::string_view flags = Cut(line, ' ');
    const std::string_view master = Cut(line, ' ');
    for (int i = 0; i < 3; ++i) Cut(line, ' ');
    const bool up = flags.find("slave") != std::string_view::npos &&
                    flags.find("fail") == std::string_view::npos &&
                    flags.find("noaddr") == std::string_view::npos && Cut(line, ' ') == "connected";
    if (!up) continue;
    std::string where(Cut(address, '@'));
    if (where.starts_with(':')) where.insert(0, asked.substr(0, asked.rfind(':')));
    replicas[std::string(master)].push_back({std::move(where), std::string(id)});
  }
  for (SlotRange& range : slots) range.replicas = replicas[range.master.id];
}

Finding CheckSlots(const std::vector<ClusterView>& views) {
  const ClusterView* const first = FirstAnswer(views);
  if (first == nullptr) return NothingAsked("cluster-slots", views);
  Finding finding("cluster-slots");
  const std::vector<const ClusterNode*> owners = OwnersOf(first->slots);
  size_t missing = 0;
  const std::string which = Missing(owners, missing);
  finding.figure = std::to_string(static_cast<size_t>(kSlotCount) - missing) + " of " +
                   std::to_string(kSlotCount) + " slots served, " + std::to_string(views.size()) + " nodes";
  if (missing > 0) {
    finding.Add(
        Status::kFailed, first->where, "nobody serves " + which,
        "buckets in these slots cannot be decided; with cluster-require-full-coverage no bucket at all",
        "redis-cli --cluster fix, or bring the missing master back");
  } else {
    finding.Add(Status::kOk, first->where, finding.figure, "every slot is served, and the nodes agree");
  }
  for (const ClusterView& view : views) {
    if (!view.refused.empty()) {
      finding.Add(view.master ? Status::kFailed : Status::kWarning, view.where, view.refused,
                  view.master
                      ? "a master of the cluster does not answer: its slots' buckets cannot be decided"
                      : "a replica of the cluster does not answer",
                  "bring it back, or CLUSTER FORGET it");
      continue;
    }
    if (const int64_t lost = Number(view.info, "cluster_slots_fail").value_or(0); lost > 0) {
      finding.Add(Status::kFailed, view.where, "counts " + std::to_string(lost) + " slots of failed masters",
                  "buckets in these slots cannot be decided",
                  "bring the failed master back, or let a replica take over");
    }
    if (Text(view.info, "cluster_state") == "fail") {
      finding.Add(Status::kFailed, view.where, "cluster_state:fail",
                  "this node refuses every decision (CLUSTERDOWN)", "redis-cli --cluster check shows why");
    }
    const std::vector<const ClusterNode*> others = OwnersOf(view.slots);
    size_t differ = 0;
    for (size_t i = 0; i < owners.size(); ++i) {
      const bool same = owners[i] == nullptr || others[i] == nullptr ? owners[i] == others[i]
                                                                     : owners[i]->id == others[i]->id;
      differ += same ? 0 : 1;
    }
    if (differ > 0) {
      finding.Add(Status::kWarning, view.where, "sees another owner of " + std::to_string(differ) + " slots",
                  "the nodes do not agree who serves a slot; decisions take a detour, or are unavailable",
                  "wait for a resharding or failover to end, then redis-cli --cluster check");
    }
  }
  return finding;
}

Finding CheckClusterReplicas(const std::vector<ClusterView>& views) {
  const ClusterView* const first = FirstAnswer(views);
  if (first == nullptr) return NothingAsked("cluster-replicas", views);
  Finding finding("cluster-replicas");
  std::map<std::string, size_t> replicas;  // of each master
  for (const SlotRange& range : first->slots) {
    size_t& most = replicas[range.master.where];
    most = std::max(most, range.replicas.size());
  }
  size_t bare = 0;
  for (const auto& [master, count] : replicas) {
    if (count == 0) {
      ++bare;
      finding.Add(Status::kFailed, master, "no replica",
                  "when this master fails, nobody serves its slots until it is back",
                  "add a replica: redis-cli --cluster add-node … --cluster-slave");
    } else {
      finding.Add(Status::kOk, master, std::to_string(count) + " replicas",
                  "each master has a replica to take its place");
    }
  }
  finding.figure = std::to_string(replicas.size()) + " masters, " + std::to_string(bare) + " without replica";
  if (replicas.size() < 3) {
    finding.Add(Status::kWarning, "", std::to_string(replicas.size()) + " masters",
                "fewer than three masters cannot elect a replacement when one fails",
                "run three masters or more");
  }
  return finding;
}

Finding CheckFullCoverage(const Deployment& deployment) {
  Finding finding("cluster-full-coverage");
  for (const ServerFacts& server : deployment.servers) {
    const std::string* const full = Setting(server, "cluster-require-full-coverage");
    if (full == nullptr) {
      finding.Add(Status::kSkipped, server.where, "not known, " + WhyUnknown(server),
                  "could not be asked: the user may not read this server's settings",
                  "add +config|get to the user that verify runs as");
      if (finding.figure.empty()) finding.figure = "not known";
      continue;
    }
    if (finding.figure.empty() || *full == "yes") finding.figure = "cluster-require-full-coverage " + *full;
    if (*full == "yes") {
      finding.Add(
          Status::kWarning, server.where, "cluster-require-full-coverage yes",
          "while one slot has no master every decision is unavailable, not only those of that slot",
          "CONFIG SET cluster-require-full-coverage no on every node, and in their configuration files");
    } else {
      finding.Add(Status::kOk, server.where, "cluster-require-full-coverage no",
                  "a lost master takes only its own slots away");
    }
  }
  return finding;
}

}  // namespace penstock::checkup
