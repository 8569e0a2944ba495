// A cluster: which master has which slot, a link to each when it is first needed, and the redirects of slots that move.
//
// The map comes from CLUSTER SLOTS of whichever node answers first: two are asked at a time, other ones each round. It
// is asked for anew when a reply says that it is wrong (MOVED, READONLY, CLUSTERDOWN), when a link to a master fails or
// a slot has no master, at most every kRefreshMin and again until all is well; and every kRefreshQuiet anyway. A MOVED
// changes the one slot at once.
//
// Thread contract: one event loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/slot_map.h"
#include "engine/redis/slots.h"
#include "engine/redis/topology.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

class ClusterTopology final : public Topology, private LinkOwner {
 public:
  static constexpr Micros kRefreshMin = Millis(50);
  static constexpr Micros kRefreshMax = Millis(500);
  static constexpr Micros kRefreshQuiet = Seconds(30);
  static constexpr size_t kAskedAtOnce = 2;
  static constexpr size_t kCalls = 8;  // under way: rounds overlap, but no node is asked twice at a time
  // A link without slots (a seed, a node that slots move to) is closed after this much quiet.
  static constexpr Micros kIdleLink = Seconds(60);
  // What was refused because its slot is on the move or not served is sent again after this, doubled each time. A call
  // that several share is first divided.
  static constexpr Micros kFirstPark = Millis(1);

  ClusterTopology(TopologyParts parts, const Options& options);
  ~ClusterTopology() override;

  ServerLink* LinkFor(int32_t slot) noexcept override;
  bool has_slots() const override { return true; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override;
  std::vector<LinkInfo> Links() const override;
  std::string_view trouble() const override;

 private:
  static constexpr uint16_t kNobody = 0xffff;

  struct Node {
    DialTarget target;
    bool seed = false;
    std::unique_ptr<ServerLink> link;
    int32_t slots = 0;
    SteadyTime used{};    // when it last had slots or was sent something
    uint64_t listed = 0;  // the round whose map last named it
  };
  struct Call {
    std::unique_ptr<ControlCall> call;
    const ServerLink* link = nullptr;  // whom it asks, while it is in use
    uint64_t round = 0;
    std::string host;
  };

  void Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept override;
  void LinkChanged(ServerLink& link) noexcept override;
  void Count(Redirect::Kind kind);
  bool IsOurs(const Exchange& exchange) const;

  // kNobody: no such host can be called, or there are too many.
  uint16_t NodeAt(std::string_view host, uint16_t port);
  ServerLink& Link(Node& node);
  ServerLink* AnyMaster();
  void SetOwner(int32_t slot, uint16_t node);
  void SendTo(uint16_t node, Exchange& exchange, bool asking);
  void SendAgain(Exchange& exchange);
  void ParkShortly(Exchange& exchange);
  void GiveUp(Exchange& exchange, Reason reason);

  // As soon as the last refresh is kRefreshMin ago.
  void WantRefresh();
  void Refresh();
  bool Ask(Node& node);
  void Heard(const Call& call, const Reply& reply);
  void Apply(const SlotMap& map);
  void Prune();
  bool troubled() const;

  TopologyParts parts_;
  const Options& options_;
  std::array<Call, kCalls> calls_;
  // Invariant: an entry of owner_ is kNobody or an index of nodes_; Node::slots counts its entries. nodes_ are the
  // seeds and at most kMostNodes others.
  std::vector<Node> nodes_;
  std::array<uint16_t, kSlotCount> owner_;
  int32_t served_ = 0;  // slots that somebody has
  Parking parking_;
  RetiredLinks retired_;
  Alarm refresh_alarm_;
  Backoff backoff_;
  SteadyTime last_refresh_{};   // when one was begun
  uint64_t round_ = 0;          // of refreshing
  uint64_t applied_round_ = 0;  // of the map at hand
  size_t next_asked_ = 0;       // where the next round begins
  uint16_t told_by_ = kNobody;  // whom a MOVED named: it knows more than others, and is asked first
  bool closing_ = false;
  std::string last_failure_;  // why the newest answer was no map
  mutable std::string trouble_;
};

}  // namespace penstock::engine::redis
