// Links, timers and dialers of the topologies' tests, moved by hand. No sockets, no sleeps.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/dialer.h"
#include "base/executor.h"
#include "engine/redis/server_link.h"
#include "engine/redis/topology_parts.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis::testing {

class FakeTimer final : public Timer {
 public:
  explicit FakeTimer(ManualClock& clock) : clock_(clock) {}

  Id Schedule(SteadyTime at, std::function<void()> task) override {
    tasks_.emplace(std::pair(at, ++last_), std::move(task));
    return last_;
  }
  void Cancel(Id id) override {
    std::erase_if(tasks_, [&](const auto& entry) { return entry.first.second == id; });
  }
  // Time passes, and what is due on the way runs at its instant.
  void Advance(Micros by) {
    const SteadyTime until = clock_.Steady() + by;
    while (!tasks_.empty() && tasks_.begin()->first.first <= until) {
      const SteadyTime at = tasks_.begin()->first.first;
      if (at > clock_.Steady()) clock_.Advance(at - clock_.Steady());
      const std::function<void()> task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
      task();
    }
    clock_.Advance(until - clock_.Steady());
  }
  size_t pending() const { return tasks_.size(); }

 private:
  ManualClock& clock_;
  std::map<std::pair<SteadyTime, Id>, std::function<void()>> tasks_;
  Id last_ = 0;
};

// An exchange of a decision.
class FakeExchange final : public Exchange {
 public:
  explicit FakeExchange(int32_t of_slot, SteadyTime until) {
    slot = of_slot;
    deadline = until;
  }
  std::string_view command() const noexcept override { return "decide"; }
  bool Divide() noexcept override {
    divided += of_several ? 1 : 0;
    return of_several;
  }
  void Expired() noexcept override {}
  void Done(const Reply& reply) noexcept override {
    EXPECT_FALSE(fate.has_value()) << "done twice";
    fate = reply.fate;
    reason = reply.reason;
    if (then) then();
  }
  bool of_several = false;
  int divided = 0;
  std::optional<Fate> fate;
  Reason reason = Reason::kNone;
  std::function<void()> then;
};

class FakeLink final : public ServerLink {
 public:
  FakeLink(const DialTarget& target, LinkOwner& owner, std::vector<FakeLink*>& all)
      : target_(target), owner_(owner), all_(all) {
    all_.push_back(this);
  }
  ~FakeLink() override {
    std::erase(all_, this);
    while (!sent.empty()) Lose(Fate::kUnknown);
  }

  Reason Send(Exchange& exchange) noexcept override { return Take(exchange, false); }
  Reason SendAsking(Exchange& exchange) noexcept override { return Take(exchange, true); }
  bool usable() const override { return usable_; }
  size_t in_flight() const override { return sent.size(); }
  ClockOffset& clock() override { return clock_; }
  const DialTarget& target() const override { return target_; }
  std::string_view last_error() const override { return usable_ ? "" : "connection refused"; }

  void SetUsable(bool usable) {
    usable_ = usable;
    if (usable) refuses = Reason::kNone;
    owner_.LinkChanged(*this);
  }
  // The connection broke and the breaker is open.
  void Break() {
    refuses = Reason::kEngineDown;
    usable_ = false;
    while (!sent.empty()) Lose(Fate::kUnknown);
    owner_.LinkChanged(*this);
  }
  // The oldest exchange gets its reply.
  void Answer(std::string_view resp) {
    ASSERT_FALSE(sent.empty());
    resp::ReplyParser parser;
    ASSERT_EQ(parser.Parse(resp).status, resp::ParseStatus::kDone) << resp;
    Reply reply;
    reply.fate = Fate::kReplied;
    reply.nodes = parser.nodes();
    reply.link = this;
    Pop().Done(reply);
  }
  void Redirect(redis::Redirect::Kind kind, int32_t slot = -1, std::string host = "", uint16_t port = 0) {
    ASSERT_FALSE(sent.empty());
    redis::Redirect redirect;
    redirect.kind = kind;
    redirect.slot = slot;
    redirect.host = std::move(host);
    redirect.port = port;
    owner_.Redirected(*this, Pop(), redirect);
  }
  void Expire() {
    ASSERT_FALSE(sent.empty());
    sent.front().exchange->Expired();
  }
  void Lose(Fate fate) {
    Reply reply;
    reply.fate = fate;
    reply.reason = Reason::kEngineDown;
    Pop().Done(reply);
  }
  std::string Oldest() const { return sent.empty() ? "" : std::string(sent.front().exchange->command()); }

  struct Sent {
    Exchange* exchange;
    bool asking;
  };
  std::vector<Sent> sent;
  Reason refuses = Reason::kNone;

 private:
  Reason Take(Exchange& exchange, bool asking) {
    if (refuses != Reason::kNone) return refuses;
    sent.push_back({&exchange, asking});
    return Reason::kNone;
  }
  Exchange& Pop() {
    Exchange& exchange = *sent.front().exchange;
    sent.erase(sent.begin());
    return exchange;
  }

  const DialTarget target_;
  LinkOwner& owner_;
  std::vector<FakeLink*>& all_;
  ClockOffset clock_;
  bool usable_ = false;
};

// A connection whose other end is the test.
class FakeStream final : public Stream {
 public:
  FakeStream(const DialTarget& of_target, StreamHandler& of_handler, std::vector<FakeStream*>& all)
      : target(of_target), handler(of_handler), all_(all) {
    all_.push_back(this);
  }
  ~FakeStream() override { std::erase(all_, this); }
  void Write(std::string_view bytes) noexcept override { written += bytes; }
  size_t unsent() const noexcept override { return 0; }

  void Say(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::span<char> space = handler.ReceiveSpace();
      const size_t count = std::min(space.size(), bytes.size());
      std::copy_n(bytes.begin(), count, space.begin());
      bytes.remove_prefix(count);
      handler.Received(count);
    }
  }

  const DialTarget target;
  StreamHandler& handler;
  std::string written;

 private:
  std::vector<FakeStream*>& all_;
};

class FakeDialer final : public Dialer {
 public:
  std::unique_ptr<Stream> Dial(const DialTarget& target, StreamHandler& handler) override {
    ++dialed;
    return std::make_unique<FakeStream>(target, handler, streams);
  }
  std::vector<FakeStream*> streams;  // those that live, the oldest first
  int dialed = 0;
};

// The world of a topology under test.
struct World {
  ManualClock clock{EngineTime{1'000'000'000}};
  FakeTimer timer{clock};
  FakeDialer dialer;
  TopologyCounters counters;
  std::vector<FakeLink*> links;  // those that live, the oldest first
  int opened = 0;

  TopologyParts parts() {
    return {timer, clock, dialer,
            [this](const DialTarget& target, LinkOwner& owner) {
              ++opened;
              return std::make_unique<FakeLink>(target, owner, links);
            },
            counters};
  }
  FakeLink* LinkTo(std::string_view host, uint16_t port) {
    for (FakeLink* link : links) {
      if (link->target().host == host && link->target().port == port) return link;
    }
    return nullptr;
  }
  SteadyTime In(Micros wait) const { return clock.Steady() + wait; }
};

inline DialTarget At(std::string host, uint16_t port) {
  DialTarget target;
  target.host = std::move(host);
  target.port = port;
  return target;
}

}  // namespace penstock::engine::redis::testing
