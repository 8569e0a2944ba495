#include "engine/redis/sentinel.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

std::string Role() {
  std::string command;
  resp::AppendCommand(command, {"ROLE"});
  return command;
}

}  // namespace

SentinelTopology::SentinelTopology(TopologyParts parts, const Options& options)
    : parts_(std::move(parts)),
      options_(options),
      parking_(parts_.timer, parts_.clock, parts_.counters,
               [this](Exchange& exchange) { SendAgain(exchange); }),
      retired_(parts_.timer, parts_.clock),
      watch_(parts_, options, *this),
      poll_alarm_(parts_.timer, [this] { Poll(); }),
      backoff_({.least = kPollMin, .most = kPollMax, .seed = RandomSeed()}) {
  for (Call& call : calls_) {
    call.call = std::make_unique<ControlCall>([this, &call](const Reply& reply) { HeardRole(call, reply); });
  }
  Poll();
}

SentinelTopology::~SentinelTopology() {
  // What is Done here may come back to us with a question.
  closing_ = true;
  verified_ = false;
  for (const Call& call : calls_) call.call->Silence();
  poll_alarm_.Cancel();
  parking_.RefuseAll();
  retired_.CloseAll();
  link_.reset();
}

std::vector<LinkInfo> SentinelTopology::Links() const {
  if (link_ == nullptr) return {};
  LinkInfo info;
  info.target = link_->target().Text();
  info.role = verified_ ? "master" : "unverified";
  info.usable = verified_ && link_->usable();
  info.in_flight = link_->in_flight();
  info.trouble = link_->usable() ? std::string_view(doubt_) : link_->last_error();
  return {info};
}

std::string_view SentinelTopology::trouble() const {
  trouble_.clear();
  if (verified_) return trouble_;
  if (link_ == nullptr) {
    trouble_ = "no Sentinel has named a master yet";
  } else if (!link_->usable()) {
    trouble_ = link_->target().Text() + ": " + std::string(link_->last_error());
  } else {
    trouble_ = doubt_.empty() ? link_->target().Text() + ": not known yet to be a master" : doubt_;
  }
  if (!silence_.empty()) trouble_ += "; " + silence_;
  return trouble_;
}

void SentinelTopology::Poll() {
  last_poll_ = parts_.clock.Steady();
  parts_.counters.refreshes.fetch_add(1, std::memory_order_relaxed);
  watch_.Ask();
  poll_alarm_.SetAt(last_poll_ + (verified_ ? kPollQuiet : backoff_.Next()));
}

void SentinelTopology::PollSoon() {
  poll_alarm_.SetBy(std::max(parts_.clock.Steady(), last_poll_ + kPollMin));
}

void SentinelTopology::NobodyKnows(std::string_view why) {
  parts_.counters.failed_refreshes.fetch_add(1, std::memory_order_relaxed);
  silence_ = "no Sentinel names a master: ";
  silence_ += why;
}

void SentinelTopology::MasterIs(std::string_view host, uint16_t port) {
  silence_.clear();
  parts_.counters.last_refresh_us.store(parts_.clock.Steady().us, std::memory_order_relaxed);
  DialTarget target = options_.seeds.front();  // with its TLS files
  target.host = host;
  target.port = port;
  target.path.clear();
  if (link_ != nullptr && link_->target() == target) {
    if (link_->usable() && !verified_) AskRole();
    return;
  }
  parts_.counters.changes.fetch_add(1, std::memory_order_relaxed);
  verified_ = false;
  doubt_.clear();
  retired_.Add(std::exchange(link_, parts_.open_link(target, *this)));
  backoff_.Reset();
  PollSoon();
}

void SentinelTopology::AskRole() {
  Call* free = nullptr;
  for (Call& call : calls_) {
    if (!call.call->in_use()) {
      free = &call;
    } else if (call.link == link_.get()) {
      return;
    }
  }
  if (free == nullptr) return;  // the next poll finds one
  free->link = link_.get();
  free->call->Start(*link_, Role(), parts_.clock.Steady() + options_.connect_timeout);
}

void SentinelTopology::HeardRole(const Call& call, const Reply& reply) {
  if (closing_ || call.link != link_.get() || !link_->usable()) return;
  const std::string server = link_->target().Text();
  if (reply.fate != Fate::kReplied || reply.nodes.empty()) {
    doubt_ = server + ": no answer to ROLE";
  } else if (reply.nodes[0].type == resp::ReplyType::kError) {
    doubt_ = server + ": ROLE: " + std::string(reply.nodes[0].text);
    if (reply.nodes[0].text.starts_with("NOPERM")) doubt_ += " (the ACL needs +role)";
  } else if (reply.nodes.size() > 1 && reply.nodes[1].text == "master") {
    verified_ = true;
    doubt_.clear();
    backoff_.Reset();
    poll_alarm_.SetAt(parts_.clock.Steady() + kPollQuiet);
    return parking_.WakeAll();
  } else {
    doubt_ = server + ": named as the master by Sentinel, but is a replica";
  }
  poll_alarm_.SetBy(parts_.clock.Steady() + backoff_.Next());
}

void SentinelTopology::LinkChanged(ServerLink& link) noexcept {
  if (closing_ || &link != link_.get()) return;
  if (link.usable()) return AskRole();
  verified_ = false;
  PollSoon();
}

void SentinelTopology::Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept {
  const bool ours = std::any_of(calls_.begin(), calls_.end(),
                                [&](const Call& call) { return call.call.get() == &exchange; });
  if (closing_ || ours) return Refuse(exchange, Reason::kEngineDown);
  const bool cluster = redirect.kind == Redirect::Kind::kMoved || redirect.kind == Redirect::Kind::kAsk;
  (cluster ? parts_.counters.moved : parts_.counters.read_only).fetch_add(1, std::memory_order_relaxed);
  // It was a master when it was asked, so it is one no more; or, a member of a cluster, it never was what we need.
  if (&link == link_.get()) {
    verified_ = false;
    doubt_ = link.target().Text() +
             (cluster ? ": belongs to a cluster, which does without Sentinel" : ": is a replica");
    PollSoon();
  }
  if (cluster || ++exchange.redirects > kMaxRedirects) return GiveUp(exchange, Reason::kEngineDown);
  if (exchange.deadline <= parts_.clock.Steady()) return GiveUp(exchange, Reason::kTimeout);
  SendAgain(exchange);
}

void SentinelTopology::SendAgain(Exchange& exchange) {
  ServerLink* const link = LinkFor(Exchange::kNoSlot);
  if (link == nullptr) return parking_.Park(exchange, exchange.deadline);
  const Reason refused = link->Send(exchange);
  if (refused != Reason::kNone) GiveUp(exchange, refused);
}

void SentinelTopology::GiveUp(Exchange& exchange, Reason reason) {
  parts_.counters.given_up.fetch_add(1, std::memory_order_relaxed);
  Refuse(exchange, reason);
}

}  // namespace penstock::engine::redis
