#include "engine/redis/cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/random.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

std::string AskForSlots() {
  std::string command;
  resp::AppendCommand(command, {"CLUSTER", "SLOTS"});
  return command;
}

// What an error in place of a map means to an operator.
std::string Remedy(std::string_view error) {
  std::string out = "CLUSTER SLOTS: ";
  out += error;
  if (error.starts_with("NOPERM")) out += " (the ACL needs +cluster|slots)";
  if (error.find("cluster support disabled") != std::string_view::npos) {
    out += " (not a cluster: its URL begins with redis:// instead of redis+cluster://)";
  }
  return out;
}

}  // namespace

ClusterTopology::ClusterTopology(TopologyParts parts, const Options& options)
    : parts_(std::move(parts)),
      options_(options),
      parking_(parts_.timer, parts_.clock, parts_.counters,
               [this](Exchange& exchange) { SendAgain(exchange); }),
      retired_(parts_.timer, parts_.clock),
      refresh_alarm_(parts_.timer, [this] { Refresh(); }),
      backoff_({.least = kRefreshMin, .most = kRefreshMax, .seed = RandomSeed()}) {
  owner_.fill(kNobody);
  for (const DialTarget& seed : options.seeds) {
    Node& node = nodes_.emplace_back();
    node.target = seed;
    node.seed = true;
  }
  for (Call& call : calls_) {
    call.call = std::make_unique<ControlCall>([this, &call](const Reply& reply) { Heard(call, reply); });
  }
  Refresh();
}

ClusterTopology::~ClusterTopology() {
  // What is Done here may come back to us with a question.
  closing_ = true;
  for (const Call& call : calls_) call.call->Silence();
  refresh_alarm_.Cancel();
  parking_.RefuseAll();
  retired_.CloseAll();
  for (Node& node : nodes_) node.link.reset();
}

ServerLink* ClusterTopology::LinkFor(int32_t slot) noexcept {
  if (closing_) return nullptr;
  if (slot < 0) return AnyMaster();
  if (slot >= kSlotCount) return nullptr;
  const uint16_t node = owner_[static_cast<size_t>(slot)];
  if (node != kNobody) return &Link(nodes_[node]);
  WantRefresh();
  return nullptr;
}

ServerLink* ClusterTopology::AnyMaster() {
  Node* spare = nullptr;
  for (Node& node : nodes_) {
    if (node.slots == 0) continue;
    if (node.link != nullptr && node.link->usable()) return node.link.get();
    if (spare == nullptr || node.link == nullptr) spare = &node;
  }
  return spare == nullptr ? nullptr : &Link(*spare);
}

ServerLink& ClusterTopology::Link(Node& node) {
  if (node.link == nullptr) {
    node.link = parts_.open_link(node.target, *this);
    node.used = parts_.clock.Steady();
    // If it is not usable by then, the map is asked for.
    refresh_alarm_.SetBy(node.used + kRefreshMax);
  }
  return *node.link;
}

void ClusterTopology::ForEachLink(const std::function<void(ServerLink&)>& visit) {
  for (const Node& node : nodes_) {
    if (node.link != nullptr) visit(*node.link);
  }
}

std::vector<LinkInfo> ClusterTopology::Links() const {
  std::vector<LinkInfo> out;
  for (const Node& node : nodes_) {
    if (node.link == nullptr && node.slots == 0) continue;
    LinkInfo& info = out.emplace_back();
    info.target = node.target.Text();
    info.role = node.slots > 0 ? "master" : "node";
    info.slots = node.slots;
    if (node.link == nullptr) continue;
    info.usable = node.link->usable();
    info.in_flight = node.link->in_flight();
    info.trouble = node.link->last_error();
  }
  return out;
}

std::string_view ClusterTopology::trouble() const {
  trouble_.clear();
  if (applied_round_ == 0) {
    trouble_ = "no node of the cluster has said yet which slots it has";
    if (!last_failure_.empty()) trouble_ += ": " + last_failure_;
    return trouble_;
  }
  if (served_ < kSlotCount) {
    trouble_ = std::to_string(kSlotCount - served_) + " slots of the cluster have no master";
    return trouble_;
  }
  for (const Node& node : nodes_) {
    if (node.slots == 0 || node.link == nullptr || node.link->usable()) continue;
    if (node.link->last_error().empty()) continue;  // its first connection is being made
    trouble_ = node.target.Text() + ": " + std::string(node.link->last_error());
    return trouble_;
  }
  return trouble_;
}

bool ClusterTopology::troubled() const {
  return applied_round_ == 0 || served_ < kSlotCount ||
         std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
           return node.slots > 0 && node.link != nullptr && !node.link->usable();
         });
}

// --- What a server refused because it is elsewhere ---

void ClusterTopology::Count(Redirect::Kind kind) {
  const auto count = [](std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); };
  switch (kind) {
    case Redirect::Kind::kMoved:
      return count(parts_.counters.moved);
    case Redirect::Kind::kAsk:
      return count(parts_.counters.asked);
    case Redirect::Kind::kReadOnly:
      return count(parts_.counters.read_only);
    case Redirect::Kind::kTryAgain:
      return count(parts_.counters.try_again);
    case Redirect::Kind::kClusterDown:
      return count(parts_.counters.cluster_down);
  }
}

bool ClusterTopology::IsOurs(const Exchange& exchange) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const Call& call) { return call.call.get() == &exchange; });
}

void ClusterTopology::Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept {
  if (closing_ || IsOurs(exchange)) return Refuse(exchange, Reason::kEngineDown);
  Count(redirect.kind);
  uint16_t node = kNobody;
  if (redirect.kind == Redirect::Kind::kMoved || redirect.kind == Redirect::Kind::kAsk) {
    node = NodeAt(redirect.host.empty() ? link.target().host : redirect.host, redirect.port);
  }
  if (redirect.kind == Redirect::Kind::kMoved && node != kNobody) {
    SetOwner(redirect.slot, node);
    told_by_ = node;
  }
  if (redirect.kind != Redirect::Kind::kAsk && redirect.kind != Redirect::Kind::kTryAgain) WantRefresh();

  if (++exchange.redirects > kMaxRedirects) return GiveUp(exchange, Reason::kEngineDown);
  if (exchange.deadline <= parts_.clock.Steady()) return GiveUp(exchange, Reason::kTimeout);
  if (node != kNobody) return SendTo(node, exchange, redirect.kind == Redirect::Kind::kAsk);
  if (redirect.kind == Redirect::Kind::kTryAgain && exchange.Divide()) return;
  ParkShortly(exchange);
}

void ClusterTopology::SendTo(uint16_t node, Exchange& exchange, bool asking) {
  ServerLink& link = Link(nodes_[node]);
  nodes_[node].used = parts_.clock.Steady();
  const Reason refused = asking ? link.SendAsking(exchange) : link.Send(exchange);
  if (refused != Reason::kNone) GiveUp(exchange, refused);
}

void ClusterTopology::SendAgain(Exchange& exchange) {
  ServerLink* const link = LinkFor(exchange.slot);
  if (link == nullptr) {
    if (++exchange.redirects > kMaxRedirects) return GiveUp(exchange, Reason::kEngineDown);
    return ParkShortly(exchange);
  }
  const Reason refused = link->Send(exchange);
  if (refused != Reason::kNone) GiveUp(exchange, refused);
}

void ClusterTopology::ParkShortly(Exchange& exchange) {
  const int times = std::clamp(exchange.redirects, 1, kMaxRedirects) - 1;
  parking_.Park(exchange, parts_.clock.Steady() + kFirstPark * (int64_t{1} << times));
}

void ClusterTopology::GiveUp(Exchange& exchange, Reason reason) {
  parts_.counters.given_up.fetch_add(1, std::memory_order_relaxed);
  Refuse(exchange, reason);
}

void ClusterTopology::LinkChanged(ServerLink& link) noexcept {
  if (closing_) return;
  const bool better = link.usable() && troubled();
  const bool worse = !link.usable() && std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.link.get() == &link && node.slots > 0;
  });
  if (better || worse) WantRefresh();
}

// --- The map ---

uint16_t ClusterTopology::NodeAt(std::string_view host, uint16_t port) {
  if (host.empty() || host == "?" || port == 0) return kNobody;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const DialTarget& target = nodes_[i].target;
    if (target.port == port && target.host == host) return static_cast<uint16_t>(i);
  }
  if (nodes_.size() >= SlotMap::kMostNodes + options_.seeds.size()) return kNobody;
  Node& node = nodes_.emplace_back();
  node.target = options_.seeds.front();  // with its TLS files
  node.target.host = host;
  node.target.port = port;
  node.target.path.clear();
  node.used = parts_.clock.Steady();
  return static_cast<uint16_t>(nodes_.size() - 1);
}

void ClusterTopology::SetOwner(int32_t slot, uint16_t node) {
  if (slot < 0 || slot >= kSlotCount) return;
  uint16_t& owner = owner_[static_cast<size_t>(slot)];
  if (owner == kNobody) {
    ++served_;
  } else {
    --nodes_[owner].slots;
  }
  owner = node;
  ++nodes_[node].slots;
}

void ClusterTopology::WantRefresh() {
  refresh_alarm_.SetBy(std::max(parts_.clock.Steady(), last_refresh_ + kRefreshMin));
}

void ClusterTopology::Refresh() {
  last_refresh_ = parts_.clock.Steady();
  ++round_;
  size_t asked = 0;
  if (told_by_ != kNobody) asked += Ask(nodes_[std::exchange(told_by_, kNobody)]) ? 1 : 0;
  const bool anyone = troubled();
  const size_t count = nodes_.size();
  const size_t begin = next_asked_;
  // First whom we can reach, then, if that is not enough, whom we perhaps can.
  for (const bool usable : {true, false}) {
    if (!usable && !anyone && asked > 0) break;
    for (size_t i = 0; i < count && asked < kAskedAtOnce; ++i) {
      const size_t at = (begin + i) % count;
      if ((nodes_[at].link != nullptr && nodes_[at].link->usable()) != usable || !Ask(nodes_[at])) continue;
      ++asked;
      next_asked_ = at + 1;
    }
  }
  refresh_alarm_.SetBy(last_refresh_ + backoff_.Next());
}

bool ClusterTopology::Ask(Node& node) {
  ServerLink& link = Link(node);
  Call* free = nullptr;
  for (Call& call : calls_) {
    if (!call.call->in_use()) {
      free = &call;
    } else if (call.link == &link) {
      return false;
    }
  }
  if (free == nullptr) return false;
  free->link = &link;
  free->round = round_;
  free->host = node.target.host;
  if (!free->call->Start(link, AskForSlots(), last_refresh_ + options_.connect_timeout)) {
    last_failure_ = node.target.Text() + ": " + std::string(link.last_error());
    return false;
  }
  parts_.counters.refreshes.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ClusterTopology::Heard(const Call& call, const Reply& reply) {
  if (closing_ || call.round <= applied_round_) return;
  if (reply.fate == Fate::kReplied && !reply.nodes.empty() &&
      reply.nodes[0].type != resp::ReplyType::kError) {
    const Result<SlotMap> map = ReadSlotMap(reply.nodes, call.host);
    if (map) {
      applied_round_ = call.round;
      last_failure_.clear();
      return Apply(*map);
    }
    last_failure_ = map.error().message;
  } else if (reply.fate == Fate::kReplied && !reply.nodes.empty()) {
    last_failure_ = Remedy(reply.nodes[0].text);
  } else {
    const std::string_view why = call.link->last_error();
    last_failure_ = call.host + ": " + std::string(why.empty() ? ToString(reply.reason) : why);
  }
  parts_.counters.failed_refreshes.fetch_add(1, std::memory_order_relaxed);
}

void ClusterTopology::Apply(const SlotMap& map) {
  const SteadyTime now = parts_.clock.Steady();
  parts_.counters.last_refresh_us.store(now.us, std::memory_order_relaxed);
  const std::array<uint16_t, kSlotCount> before = owner_;
  owner_.fill(kNobody);
  served_ = 0;
  for (Node& node : nodes_) {
    if (std::exchange(node.slots, 0) > 0) node.used = now;
  }
  std::vector<uint16_t> indices;
  for (const NodeAddress& address : map.nodes) {
    indices.push_back(NodeAt(address.host, address.port));
    if (indices.back() != kNobody) nodes_[indices.back()].listed = applied_round_;
  }
  for (const SlotRange& range : map.ranges) {
    if (indices[range.node] == kNobody) continue;
    for (int32_t slot = range.first; slot <= range.last; ++slot) SetOwner(slot, indices[range.node]);
  }
  const bool changed = owner_ != before;
  if (changed) parts_.counters.changes.fetch_add(1, std::memory_order_relaxed);
  Prune();
  if (!troubled()) {
    backoff_.Reset();
    refresh_alarm_.SetAt(now + kRefreshQuiet);
  }
  if (changed) parking_.WakeAll();
}

void ClusterTopology::Prune() {
  const SteadyTime now = parts_.clock.Steady();
  std::vector<uint16_t> moved_to(nodes_.size(), kNobody);
  std::vector<Node> kept;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.slots == 0 && node.link != nullptr && now - node.used > kIdleLink)
      retired_.Add(std::move(node.link));
    if (!node.seed && node.link == nullptr && node.listed != applied_round_) continue;
    moved_to[i] = static_cast<uint16_t>(kept.size());
    kept.push_back(std::move(node));
  }
  nodes_ = std::move(kept);
  for (uint16_t& owner : owner_) {
    if (owner != kNobody) owner = moved_to[owner];
  }
  told_by_ = kNobody;
}

}  // namespace penstock::engine::redis
