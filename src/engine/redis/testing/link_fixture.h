// For tests: a link to a server that the test plays, byte by byte, and exchanges that write down what became of them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/redis/server_link.h"
#include "engine/redis/testing/fake_net.h"
#include "resp/writer.h"

namespace penstock::engine::redis::by_hand {

inline const std::string kSha1(40, 'a');
inline const std::string kSha2(40, 'b');
inline const std::array<Script, 2> kScripts = {Script{"one", "return 1", kSha1},
                                               Script{"two", "return 2", kSha2}};
inline constexpr std::string_view kHelloOk = "*2\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
inline constexpr std::string_view kTimeReply = "*2\r\n$10\r\n1000000000\r\n$3\r\n250\r\n";

inline std::string Sha(const std::string& sha) { return "$40\r\n" + sha + "\r\n"; }
inline std::string GreetingRest() { return std::string(kTimeReply) + Sha(kSha1) + Sha(kSha2) + "+PONG\r\n"; }

// A command that writes down what became of it.
class TestExchange final : public Exchange {
 public:
  TestExchange(std::string name, SteadyTime until) : name_(std::move(name)) { deadline = until; }

  void Prepare(const ClockOffset& clock) noexcept override {
    ++prepared;
    clock_known = clock.known();
    command_.clear();
    if (script_ != nullptr) {
      resp::AppendCommand(command_, {"EVALSHA", script_->sha1, "0", name_});
    } else {
      resp::AppendCommand(command_, {"ECHO", name_});
    }
  }
  std::string_view command() const noexcept override { return command_; }
  const Script* script() const noexcept override { return script_; }
  void Expired() noexcept override {
    EXPECT_EQ(done, 0) << name_;
    ++expired;
    if (on_expired) on_expired();
  }
  void Done(const Reply& reply) noexcept override {
    ++done;
    fate = reply.fate;
    reason = reply.reason;
    if (!reply.nodes.empty()) text = reply.nodes.front().text;
    link = reply.link;
    if (on_done) on_done();
  }

  int prepared = 0;
  bool clock_known = false;
  int expired = 0;
  int done = 0;
  Fate fate = Fate::kNotRun;
  Reason reason = Reason::kNone;
  std::string text;
  ServerLink* link = nullptr;
  const Script* script_ = nullptr;
  std::function<void()> on_done;
  std::function<void()> on_expired;

 private:
  const std::string name_;
  std::string command_;
};

class LinkTest : public ::testing::Test, public LinkOwner {
 protected:
  void Redirected(ServerLink&, Exchange& exchange, const Redirect& redirect) noexcept override {
    redirected_.emplace_back(&exchange, redirect);
    if (on_redirected_) on_redirected_(exchange);
  }
  void LinkChanged(ServerLink& link) noexcept override { changes_.push_back(link.usable()); }

  void Open() {
    DialTarget target;
    target.host = "store";
    target.port = 6379;
    link_ = OpenServerLink({dialer_, loop_, loop_, clock_, kScripts, &book_}, target, options_, *this);
  }
  // Connected and greeted.
  void OpenUsable() {
    Open();
    Greet(stream());
    ASSERT_TRUE(link_->usable());
  }
  void Greet(FakeStream* stream) {
    stream->handler.Connected();
    stream->Take();
    dialer_.Feed(stream, kHelloOk);
    stream->Take();
    dialer_.Feed(stream, GreetingRest());
  }
  FakeStream* stream() { return dialer_.streams.back(); }
  TestExchange& Make(std::string name, Micros within = Millis(20)) {
    return exchanges_.emplace_back(std::move(name), clock_.Steady() + within);
  }
  TestExchange& Send(std::string name, Micros within = Millis(20)) {
    TestExchange& exchange = Make(std::move(name), within);
    EXPECT_EQ(link_->Send(exchange), Reason::kNone);
    return exchange;
  }
  TestExchange& SendScript(std::string name) {
    TestExchange& exchange = Make(std::move(name));
    exchange.script_ = kScripts.data();
    EXPECT_EQ(link_->Send(exchange), Reason::kNone);
    return exchange;
  }
  const LinkStats& stats() { return book_.Of("store:6379"); }
  // Time-outs in a row until the breaker opens.
  void Freeze() {
    for (int i = 0; i < options_.breaker_failures; ++i) Send("frozen");
    loop_.Advance(Millis(20));
    ASSERT_FALSE(link_->usable());
  }

  ManualClock clock_{EngineTime{5'000'000}};
  FakeLoop loop_{clock_};
  FakeDialer dialer_;
  Options options_;
  LinkBook book_;
  std::deque<TestExchange> exchanges_;
  std::unique_ptr<ServerLink> link_;
  std::vector<std::pair<Exchange*, Redirect>> redirected_;
  std::function<void(Exchange&)> on_redirected_;
  std::vector<bool> changes_;
};

}  // namespace penstock::engine::redis::by_hand
