#include "engine/redis/server_link.h"

#include "engine/redis/server_link_state.h"

namespace penstock::engine::redis {
namespace {

// Whom the owner holds. The state behind it lives on while a call of its own is under way.
class Link final : public ServerLink {
 public:
  Link(const LinkParts& parts, const DialTarget& target, const Options& options, LinkOwner& owner)
      : state_(std::make_shared<LinkState>(*this, parts, target, options, owner)) {
    state_->Open();
  }
  ~Link() override { state_->Shutdown(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Reason Send(Exchange& exchange) noexcept override { return state_->Send(exchange, false); }
  Reason SendAsking(Exchange& exchange) noexcept override { return state_->Send(exchange, true); }
  bool usable() const override { return state_->usable(); }
  size_t in_flight() const override { return state_->in_flight(); }
  ClockOffset& clock() override { return state_->clock(); }
  const DialTarget& target() const override { return state_->target(); }
  std::string_view last_error() const override { return state_->last_error(); }

 private:
  const std::shared_ptr<LinkState> state_;
};

}  // namespace

std::unique_ptr<ServerLink> OpenServerLink(const LinkParts& parts, const DialTarget& target,
                                           const Options& options, LinkOwner& owner) {
  return std::make_unique<Link>(parts, target, options, owner);
}

}  // namespace penstock::engine::redis
