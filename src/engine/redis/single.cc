#include "engine/redis/single.h"

#include <utility>

namespace penstock::engine::redis {

SingleTopology::SingleTopology(TopologyParts parts, const Options& options)
    : parts_(std::move(parts)),
      target_(options.seeds.front()),
      link_(parts_.open_link(target_, *this)),
      retired_(parts_.timer, parts_.clock),
      opened_(parts_.clock.Steady()) {}

SingleTopology::~SingleTopology() {
  retired_.CloseAll();
  // What is Done here may come back to us with a question, and is told that there is no link.
  const std::unique_ptr<ServerLink> gone = std::move(link_);
}

std::vector<LinkInfo> SingleTopology::Links() const {
  LinkInfo info;
  info.target = target_.Text();
  info.role = "server";
  info.usable = link_->usable();
  info.in_flight = link_->in_flight();
  info.trouble = link_->last_error();
  return {info};
}

std::string_view SingleTopology::trouble() const { return link_->usable() ? wrong_ : link_->last_error(); }

void SingleTopology::Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept {
  switch (redirect.kind) {
    case Redirect::Kind::kMoved:
    case Redirect::Kind::kAsk:
      parts_.counters.moved.fetch_add(1, std::memory_order_relaxed);
      wrong_ = "the server belongs to a cluster: its URL begins with redis+cluster://";
      break;
    case Redirect::Kind::kReadOnly: {
      parts_.counters.read_only.fetch_add(1, std::memory_order_relaxed);
      wrong_ =
          "READONLY: the server is a replica, which takes no writes; name the master, or use Sentinel or "
          "Cluster";
      const SteadyTime now = parts_.clock.Steady();
      if (&link == link_.get() && now - opened_ >= kAgain) {
        opened_ = now;
        retired_.Add(std::exchange(link_, parts_.open_link(target_, *this)));
      }
      break;
    }
    case Redirect::Kind::kTryAgain:
      parts_.counters.try_again.fetch_add(1, std::memory_order_relaxed);
      break;
    case Redirect::Kind::kClusterDown:
      parts_.counters.cluster_down.fetch_add(1, std::memory_order_relaxed);
      break;
  }
  parts_.counters.given_up.fetch_add(1, std::memory_order_relaxed);
  Refuse(exchange, Reason::kEngineDown);
}

void SingleTopology::LinkChanged(ServerLink& link) noexcept {
  if (&link == link_.get() && link.usable()) wrong_ = {};
}

}  // namespace penstock::engine::redis
