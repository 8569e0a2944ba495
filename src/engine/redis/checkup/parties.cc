#include "engine/redis/checkup/parties.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace penstock::checkup {
namespace {

using engine::redis::Options;
using engine::redis::TopologyKind;

// What a cluster or sentinels may name at most: no reply is believed to be small.
constexpr size_t kMaxServers = 1'000;

DialTarget At(const DialTarget& like, std::string_view host, std::string_view port) {
  DialTarget target = like;
  target.path.clear();
  target.host = host;
  target.port = 0;
  std::from_chars(port.data(), port.data() + port.size(), target.port);
  return target;
}

DialTarget AtText(const DialTarget& like, std::string_view where) {
  const size_t colon = where.rfind(':');
  return At(like, where.substr(0, colon), colon == std::string_view::npos ? "" : where.substr(colon + 1));
}

// Empty when the server answers.
std::string WhyLost(Client& client) {
  const Result<Value> pong = client.Ask(Command{"PING"});
  if (!pong) return pong.error().message;
  return pong->is_error() && pong->code() != "NOPERM" ? pong->text : std::string();
}

class Finder {
 public:
  Finder(LoopThread& loop, const Options& options) : loop_(loop), options_(options) {}

  Parties Find() {
    switch (options_.topology) {
      case TopologyKind::kSingle:
        AddServer(options_.seeds.front(), false);
        break;
      case TopologyKind::kSentinel:
        FindBySentinels();
        break;
      case TopologyKind::kCluster:
        FindCluster();
        break;
    }
    std::stable_partition(out_.servers.begin(), out_.servers.end(),
                          [](const Party& party) { return !party.replica; });
    Judge();
    return std::move(out_);
  }

 private:
  void AddServer(const DialTarget& target, bool replica) {
    if (out_.servers.size() == kMaxServers) return;
    const Login login{options_.user, options_.password, options_.database};
    Party party{std::make_unique<Client>(loop_, target, login), replica, {}};
    party.lost = WhyLost(*party.client);
    out_.servers.push_back(std::move(party));
  }

  void FindBySentinels() {
    for (const DialTarget& seed : options_.seeds) AskSentinel(seed);
    // Those that the sentinels know and the URL does not name.
    for (size_t i = 0; i < known_.size() && out_.sentinels.size() < kMaxServers; ++i) {
      const auto [id, where] = known_[i];
      if (!ids_.contains(id)) AskSentinel(AtText(options_.seeds.front(), where));
    }
    std::set<std::string> masters;
    for (const SentinelView& view : out_.sentinel_views) {
      if (!view.master.empty() && masters.insert(view.master).second) {
        AddServer(AtText(options_.seeds.front(), view.master), false);
      }
    }
    std::set<std::string> replicas;
    for (const SentinelView& view : out_.sentinel_views) {
      for (const Value& item : view.replicas.items) {
        const Fields fields = ParsePairs(item);
        const std::string where = std::string(Text(fields, "ip")) + ":" + std::string(Text(fields, "port"));
        if (masters.contains(where) || !replicas.insert(where).second) continue;
        AddServer(AtText(options_.seeds.front(), where), true);
      }
    }
  }

  void AskSentinel(const DialTarget& target) {
    const std::string& name = options_.master_name;
    Party party{
        std::make_unique<Client>(loop_, target, Login{options_.sentinel_user, options_.sentinel_password, 0}),
        false,
        {}};
    SentinelView view;
    view.where = party.client->where();
    const Result<std::vector<Value>> heard = party.client->Ask(std::vector<Command>{
        {"SENTINEL", "MYID"},
        {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name},
        {"SENTINEL", "MASTER", name},
        {"SENTINEL", "REPLICAS", name},
        {"SENTINEL", "SENTINELS", name},
        {"SENTINEL", "CKQUORUM", name},
    });
    if (!heard) {
      view.refused = heard.error().message;
    } else if (const Value& address = (*heard)[1]; address.is_error()) {
      view.refused = address.text;
    } else {
      if (!(*heard)[0].is_error()) ids_.insert((*heard)[0].text);
      if (address.items.size() == 2) view.master = address.items[0].text + ":" + address.items[1].text;
      view.fields = ParsePairs((*heard)[2]);
      view.replicas = (*heard)[3];
      view.quorum = (*heard)[5].text;
      for (const Value& item : (*heard)[4].items) {
        const Fields fields = ParsePairs(item);
        const std::string id(Text(fields, "runid"));
        const auto same = [&](const auto& known) { return known.first == id; };
        if (id.empty() || std::any_of(known_.begin(), known_.end(), same)) continue;
        known_.emplace_back(id, std::string(Text(fields, "ip")) + ":" + std::string(Text(fields, "port")));
      }
    }
    // One that was asked and did not answer is not asked again under the name that the others have for it.
    const auto asked = [&](const SentinelView& other) { return other.where == view.where; };
    if (std::any_of(out_.sentinel_views.begin(), out_.sentinel_views.end(), asked)) return;
    party.lost = view.refused;
    out_.sentinels.push_back(std::move(party));
    out_.sentinel_views.push_back(std::move(view));
  }

  void FindCluster() {
    std::vector<SlotRange> slots;
    for (const DialTarget& seed : options_.seeds) {
      const ClusterView view = AskNode(seed);
      if (!view.refused.empty()) {
        seed_trouble_ = view.where + ": " + view.refused;
        continue;
      }
      slots = view.slots;
      if (!slots.empty()) break;
    }
    std::set<std::string> seen;
    const auto add = [&](const ClusterNode& node, bool replica) {
      if (!seen.insert(node.where).second || out_.servers.size() == kMaxServers) return;
      const DialTarget target = AtText(options_.seeds.front(), node.where);
      AddServer(target, replica);
      out_.cluster_views.push_back(AskNode(target));
      out_.cluster_views.back().master = !replica;
    };
    for (const SlotRange& range : slots) add(range.master, false);
    for (const SlotRange& range : slots) {
      for (const ClusterNode& node : range.replicas) add(node, true);
    }
  }

  ClusterView AskNode(const DialTarget& target) {
    Client client(loop_, target, {options_.user, options_.password, 0});
    ClusterView view;
    view.where = client.where();
    const Result<std::vector<Value>> heard =
        client.Ask(std::vector<Command>{{"CLUSTER", "SLOTS"}, {"CLUSTER", "INFO"}, {"CLUSTER", "NODES"}});
    if (!heard) {
      view.refused = heard.error().message;
    } else if ((*heard)[0].is_error()) {
      view.refused = (*heard)[0].text;
    } else {
      view.slots = ParseSlots((*heard)[0], view.where);
      if (!(*heard)[2].is_error()) TakeReplicas((*heard)[2].text, view.where, view.slots);
      if (!(*heard)[1].is_error()) view.info = ParseInfo((*heard)[1].text);
    }
    return view;
  }

  void Judge() {
    for (const Party& party : out_.servers) {
      if (!party.replica && party.lost.empty()) return;
    }
    if (!out_.servers.empty()) {
      out_.unreachable = out_.servers.front().client->where() + ": " + out_.servers.front().lost;
    } else if (!out_.sentinel_views.empty()) {
      const SentinelView& view = out_.sentinel_views.front();
      out_.unreachable = view.where + ": " +
                         (view.refused.empty() ? "knows no master " + options_.master_name : view.refused);
    } else {
      out_.unreachable = seed_trouble_.empty() ? "no node serves a slot" : seed_trouble_;
    }
  }

  LoopThread& loop_;
  const Options& options_;
  Parties out_;
  std::set<std::string> ids_;                               // of sentinels that answered
  std::vector<std::pair<std::string, std::string>> known_;  // sentinels by the others' account: id, host:port
  std::string seed_trouble_;
};

}  // namespace

std::string EngineText(const Options& options) {
  const DialTarget& first = options.seeds.front();
  if (!first.path.empty()) return "unix://" + first.path;
  std::string out = first.tls ? "rediss" : "redis";
  if (options.topology == TopologyKind::kSentinel) out += "+sentinel";
  if (options.topology == TopologyKind::kCluster) out += "+cluster";
  out += "://";
  for (const DialTarget& seed : options.seeds) out += (out.ends_with('/') ? "" : ",") + seed.Text();
  if (options.topology == TopologyKind::kSentinel) out += "/" + options.master_name;
  return out;
}

Parties FindParties(LoopThread& loop, const Options& options) { return Finder(loop, options).Find(); }

}  // namespace penstock::checkup
