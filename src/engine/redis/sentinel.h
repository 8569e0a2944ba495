// The master of a name, as Sentinels know it.
//
// A server is sent to only after it said itself that it is a master (ROLE), at every connection anew; until then
// LinkFor gives null. The Sentinels are asked when a link fails, when a server says READONLY, when they publish a
// switch, and every kPollQuiet anyway, since an old master that is cut off with us would never say. What was in flight
// on the old master's link is waited for a moment and then is of unknown fate; what was READONLY is sent to the new one.
//
// Thread contract: one event loop's thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/sentinel_watch.h"
#include "engine/redis/topology.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

class SentinelTopology final : public Topology, private LinkOwner, private SentinelListener {
 public:
  static constexpr Micros kPollMin = Millis(50);
  static constexpr Micros kPollMax = Millis(500);
  static constexpr Micros kPollQuiet = Seconds(1);

  SentinelTopology(TopologyParts parts, const Options& options);
  ~SentinelTopology() override;

  ServerLink* LinkFor(int32_t slot) noexcept override {
    (void)slot;
    return verified_ ? link_.get() : nullptr;
  }
  bool has_slots() const override { return false; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override {
    if (link_ != nullptr) visit(*link_);
  }
  std::vector<LinkInfo> Links() const override;
  std::string_view trouble() const override;

 private:
  // Under way: to the present link and to those before it.
  static constexpr size_t kCalls = 4;
  struct Call {
    std::unique_ptr<ControlCall> call;
    const ServerLink* link = nullptr;  // whom it asks, while it is in use
  };

  void Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept override;
  void LinkChanged(ServerLink& link) noexcept override;
  void MasterIs(std::string_view host, uint16_t port) override;
  void NobodyKnows(std::string_view why) override;

  void Poll();
  void PollSoon();
  void AskRole();
  void HeardRole(const Call& call, const Reply& reply);
  void SendAgain(Exchange& exchange);
  void GiveUp(Exchange& exchange, Reason reason);

  TopologyParts parts_;
  const Options& options_;
  std::array<Call, kCalls> calls_;
  std::unique_ptr<ServerLink> link_;  // to whom the Sentinels name; null until they have named one
  bool verified_ = false;             // link_ is usable and has said that it is a master
  bool closing_ = false;
  Parking parking_;
  RetiredLinks retired_;
  SentinelWatch watch_;
  Alarm poll_alarm_;
  Backoff backoff_;
  SteadyTime last_poll_{};
  std::string doubt_;    // why the named server is not believed
  std::string silence_;  // why no Sentinel names one
  mutable std::string trouble_;
};

}  // namespace penstock::engine::redis
