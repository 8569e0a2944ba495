#include "redis/cluster.h"

#include <algorithm>
#include <sstream>

#include "redis/fixture_error.h"
#include "redis/users.h"

namespace penstock::fixtures {
namespace {

bool IsMaster(RedisServer& server) {
  return server.running() && server.Connect().Must("ROLE")[0].text == "master";
}

// One line of CLUSTER NODES.
struct NodeLine {
  std::string id, address, flags, master;
  std::vector<std::string> slots;
};

std::vector<NodeLine> NodesOf(RedisServer& server) {
  std::istringstream text(server.Connect().Must("CLUSTER", "NODES").text);
  std::vector<NodeLine> nodes;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    NodeLine node;
    std::string skipped;
    words >> node.id >> node.address >> node.flags >> node.master >> skipped >> skipped >> skipped >> skipped;
    for (std::string slot; words >> slot;) node.slots.push_back(slot);
    nodes.push_back(node);
  }
  return nodes;
}

bool Serves(const NodeLine& node, int slot) {
  return std::ranges::any_of(node.slots, [slot](const std::string& range) {
    if (range[0] == '[') return false;  // on its way
    const size_t dash = range.find('-');
    const int first = std::stoi(range);
    const int last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    return first <= slot && slot <= last;
  });
}

}  // namespace

int SlotOf(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  unsigned crc = 0;
  for (const char c : key) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = ((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return static_cast<int>(crc % Cluster::kSlots);
}

Cluster::Cluster(std::vector<std::string> lines) {
  lines.insert(lines.begin(), {"cluster-node-timeout 1000", "cluster-replica-validity-factor 0"});
  for (size_t i = 0; i < kNodes; ++i) {
    nodes_.push_back(std::make_unique<RedisServer>(RedisServer::Kind::kClusterNode, lines));
  }
  for (const auto& node : nodes_) node->WaitReady();
  for (size_t i = 0; i < kNodes; ++i) {
    RedisClient client = nodes_[i]->Connect();
    ids_.push_back(client.Must("CLUSTER", "MYID").text);
    client.Must("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
    if (i >= kMasters) continue;
    const size_t first = kSlots * i / kMasters;
    const size_t last = kSlots * (i + 1) / kMasters - 1;
    client.Must("CLUSTER", "ADDSLOTSRANGE", first, last);
  }
  Meet();
  for (size_t i = kMasters; i < kNodes; ++i) {
    nodes_[i]->Connect().Must("CLUSTER", "REPLICATE", IdOf(i - kMasters));
  }
  WaitOk();
}

// Everybody meets everybody: gossip alone would take seconds.
void Cluster::Meet() {
  for (const auto& from : nodes_) {
    RedisClient client = from->Connect();
    for (const auto& to : nodes_) {
      if (from != to) client.Must("CLUSTER", "MEET", "127.0.0.1", to->port(), to->bus_port());
    }
  }
  WaitFor("nodes that know each other", [&] {
    return std::ranges::all_of(nodes_, [](const auto& node) {
      const std::vector<NodeLine> known = NodesOf(*node);
      return known.size() == kNodes && std::ranges::none_of(known, [](const NodeLine& line) {
               return line.flags.find("handshake") != std::string::npos;
             });
    });
  });
}

void Cluster::WaitOk() {
  WaitFor("a cluster that is well", [&] {
    size_t living = 0, masters = 0, following = 0;
    for (const auto& node : nodes_) {
      if (!node->running()) continue;
      ++living;
      RedisClient client = node->Connect();
      if (client.Must("CLUSTER", "INFO").text.find("cluster_state:ok") == std::string::npos) return false;
      const ReplyValue role = client.Must("ROLE");
      masters += role[0].text == "master" ? 1 : 0;
      following += role[0].text == "slave" && role[3].text == "connected" ? 1 : 0;
      // And everybody sees it so: all slots are somebody's, and every living node has its role.
      size_t seen = 0;
      for (const NodeLine& line : NodesOf(*node)) {
        seen += line.flags.find("master") != std::string::npos && !line.slots.empty() ? 1 : 0;
      }
      if (seen != kMasters) return false;
    }
    return masters == kMasters && masters + following == living;
  });
}

size_t Cluster::Owner(int slot) {
  for (size_t i = 0; i < kNodes; ++i) {
    if (!nodes_[i]->running() || !IsMaster(*nodes_[i])) continue;
    for (const NodeLine& line : NodesOf(*nodes_[i])) {
      if (line.id == IdOf(i) && Serves(line, slot)) return i;
    }
  }
  throw FixtureError("nobody serves slot " + std::to_string(slot));
}

size_t Cluster::ReplicaOf(size_t master) {
  for (size_t i = 0; i < kNodes; ++i) {
    if (!nodes_[i]->running()) continue;
    for (const NodeLine& line : NodesOf(*nodes_[i])) {
      if (line.id == IdOf(i) && line.master == IdOf(master)) return i;
    }
  }
  throw FixtureError("node " + std::to_string(master) + " has no replica");
}

void Cluster::WaitMaster(size_t node) {
  WaitFor("a replica that takes over", [&] { return IsMaster(*nodes_[node]); });
  WaitOk();
}

size_t Cluster::Failover(size_t master) {
  const size_t replica = ReplicaOf(master);
  nodes_[replica]->Connect().Must("CLUSTER", "FAILOVER");
  WaitMaster(replica);
  return replica;
}

size_t Cluster::KillMaster(size_t master) {
  const size_t replica = ReplicaOf(master);
  nodes_[master]->Kill();
  WaitMaster(replica);
  return replica;
}

void Cluster::BeginMigration(int slot, size_t from, size_t to) {
  nodes_[to]->Connect().Must("CLUSTER", "SETSLOT", slot, "IMPORTING", IdOf(from));
  nodes_[from]->Connect().Must("CLUSTER", "SETSLOT", slot, "MIGRATING", IdOf(to));
}

size_t Cluster::MoveKeys(int slot, size_t from, size_t to, size_t count) {
  constexpr int kTimeoutMs = 5'000;
  RedisClient client = nodes_[from]->Connect();
  const ReplyValue keys = client.Must("CLUSTER", "GETKEYSINSLOT", slot, count);
  if (keys.items.empty()) return 0;
  std::vector<std::string> command{"MIGRATE", "127.0.0.1", std::to_string(nodes_[to]->port()),
                                   "",        "0",         std::to_string(kTimeoutMs),
                                   "KEYS"};
  for (const ReplyValue& key : keys.items) command.push_back(key.text);
  const ReplyValue reply = client.Run(command);
  if (reply.is_error()) throw FixtureError("MIGRATE: " + reply.text);
  return keys.items.size();
}

void Cluster::EndMigration(int slot, size_t to) {
  nodes_[to]->Connect().Must("CLUSTER", "SETSLOT", slot, "NODE", IdOf(to));
  for (const auto& node : nodes_) {
    if (node->running() && IsMaster(*node))
      node->Connect().Must("CLUSTER", "SETSLOT", slot, "NODE", IdOf(to));
  }
}

void Cluster::MigrateSlot(int slot, size_t from, size_t to) {
  constexpr size_t kAtOnce = 100;
  BeginMigration(slot, from, to);
  while (MoveKeys(slot, from, to, kAtOnce) > 0) {
  }
  EndMigration(slot, to);
}

std::string Cluster::Url() const {
  std::string url = "redis+cluster://" + NodeUser().LogIn();
  for (const auto& node : nodes_) {
    if (node != nodes_[0]) url += ",";
    url += "127.0.0.1:" + std::to_string(node->port());
  }
  return url;
}

}  // namespace penstock::fixtures
