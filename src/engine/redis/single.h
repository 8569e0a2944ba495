// One server, whoever is behind its address.
//
// A server that says READONLY is a replica: the address may by now lead to another server (a name or a virtual address
// that follows the master), so the link is made anew, at most every kAgain; what was refused is not sent again.
//
// Thread contract: one event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/topology.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

class SingleTopology final : public Topology, private LinkOwner {
 public:
  static constexpr Micros kAgain = Millis(250);

  SingleTopology(TopologyParts parts, const Options& options);
  ~SingleTopology() override;

  ServerLink* LinkFor(int32_t slot) noexcept override {
    (void)slot;
    return link_.get();
  }
  bool has_slots() const override { return false; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override {
    if (link_ != nullptr) visit(*link_);
  }
  std::vector<LinkInfo> Links() const override;
  std::string_view trouble() const override;

 private:
  void Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept override;
  void LinkChanged(ServerLink& link) noexcept override;

  TopologyParts parts_;
  const DialTarget target_;
  std::unique_ptr<ServerLink> link_;  // null only while it is destroyed
  RetiredLinks retired_;
  SteadyTime opened_;
  std::string_view wrong_;  // what the server is, if it is not what it should be; a literal
};

}  // namespace penstock::engine::redis
