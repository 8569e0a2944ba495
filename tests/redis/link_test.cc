// A link of the Redis engine on a real loop and a real server that is stopped, frozen, emptied and restarted. It logs in
// as the user that a node is.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/redis/script.h"
#include "engine/redis/server_link.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "redis/redis_server.h"
#include "redis/users.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

using fixtures::RedisServer;

constexpr std::string_view kIncrement =
    "local n = (redis.call('GET', KEYS[1]) or 0) + 1 redis.call('SET', KEYS[1], n) return n";

class Call final : public Exchange {
 public:
  void Prepare(const ClockOffset&) noexcept override {}
  std::string_view command() const noexcept override { return text; }
  const Script* script() const noexcept override { return calls; }
  void Expired() noexcept override { expired_at = now(); }
  void Done(const Reply& reply) noexcept override {
    fate = reply.fate;
    integer = reply.nodes.empty() ? 0 : reply.nodes.front().integer;
    words = reply.nodes.empty() ? "" : std::string(reply.nodes.front().text);
    done = true;
  }

  std::function<SteadyTime()> now;
  std::string text;
  const Script* calls = nullptr;
  bool done = false;
  SteadyTime expired_at{0};
  Fate fate = Fate::kNotRun;
  int64_t integer = 0;
  std::string words;
};

class RedisLinkTest : public ::testing::Test, public LinkOwner {
 protected:
  void SetUp() override {
    net::PrepareProcess();
    options_.user = fixtures::NodeUser().name;
    options_.password = fixtures::NodeUser().password;
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override {
    OnLoop([this] { link_.reset(); });
    loop_.Stop();
    thread_.join();
  }
  void Redirected(ServerLink&, Exchange&, const Redirect&) noexcept override {
    ADD_FAILURE() << "no redirects here";
  }
  void LinkChanged(ServerLink&) noexcept override {}

  void OnLoop(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void Await(const std::function<bool()>& condition) {
    for (bool holds = false; !holds; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      OnLoop([&] { holds = condition(); });
    }
  }
  void Open() {
    DialTarget target;
    target.host = "127.0.0.1";
    target.port = server_.port();
    Open(target);
  }
  void Open(const DialTarget& target) {
    OnLoop([&] {
      link_ =
          OpenServerLink({*dialer_, loop_, loop_, clock_, {&script_, 1}, &book_}, target, options_, *this);
    });
  }
  void AwaitUsable() {
    Await([this] { return link_->usable(); });
  }
  // On the loop. Null: refused.
  Call* Send(Micros within = Seconds(5)) {
    Call& call = calls_.emplace_back();
    call.now = [this] { return clock_.Steady(); };
    call.calls = &script_;
    resp::AppendCommand(call.text, {"EVALSHA", script_.sha1, "1", "pen:n"});
    call.deadline = clock_.Steady() + within;
    return link_->Send(call) == Reason::kNone ? &call : nullptr;
  }
  Call& Ask(Micros within = Seconds(5)) {
    Call* call = nullptr;
    OnLoop([&] { call = Send(within); });
    EXPECT_NE(call, nullptr);
    Await([call] { return call->done; });
    return *call;
  }

  RedisServer server_;
  SystemClock clock_;
  net::Loop loop_{clock_};
  std::unique_ptr<Dialer> dialer_ = net::NewDialer(loop_);
  LinkBook book_;
  Options options_;
  const Script script_ = {"increment", std::string(kIncrement), Sha1(kIncrement)};
  std::deque<Call> calls_;
  std::unique_ptr<ServerLink> link_;
  std::thread thread_;
};

TEST_F(RedisLinkTest, ThousandsInOneTurnAreAnsweredInOrder) {
  Open();
  constexpr int kCalls = 10'000;
  std::vector<Call*> calls;
  OnLoop([&] {
    for (int i = 0; i < kCalls; ++i) calls.push_back(Send());  // waits for the connection
  });
  Await([&] { return calls.back()->done; });
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(calls[static_cast<size_t>(i)]->integer, i + 1);
  OnLoop([&] {
    EXPECT_TRUE(link_->clock().known());
    const int64_t wall = std::chrono::duration_cast<std::chrono::microseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
    EXPECT_NEAR(static_cast<double>(link_->clock().Estimate(clock_.Steady()).us), static_cast<double>(wall),
                2e6);
  });
  EXPECT_EQ(book_.Of("127.0.0.1:" + std::to_string(server_.port())).scripts_missing, 0u);
  EXPECT_EQ(server_.UsersOfNodes(), std::set{fixtures::NodeUser().name});
}

TEST_F(RedisLinkTest, AUnixSocketServesToo) {
  DialTarget target;
  target.path = server_.path();
  Open(target);
  EXPECT_EQ(Ask().integer, 1);
}

TEST_F(RedisLinkTest, AFlushOfTheScriptsIsNotSeen) {
  Open();
  EXPECT_EQ(Ask().integer, 1);
  server_.Connect().Must("SCRIPT", "FLUSH");
  std::vector<Call*> calls;
  OnLoop([&] {
    for (int i = 0; i < 100; ++i) calls.push_back(Send());
  });
  Await([&] {
    for (const Call* call : calls) {
      if (!call->done) return false;
    }
    return true;
  });
  for (const Call* call : calls) EXPECT_EQ(call->fate, Fate::kReplied);
  EXPECT_EQ(server_.Connect().Call("GET", "pen:n").text, "101");  // each ran once
}

TEST_F(RedisLinkTest, AKilledServerIsUnknownThenRefusedThenBackWithoutHelp) {
  Open();
  EXPECT_EQ(Ask().integer, 1);
  server_.Freeze();
  Call* lost = nullptr;
  OnLoop([&] { lost = Send(); });
  server_.Kill();
  Await([&] { return lost->done; });
  EXPECT_EQ(lost->fate, Fate::kUnknown);
  OnLoop([&] {
    EXPECT_FALSE(link_->usable());
    EXPECT_EQ(Send(), nullptr);
    EXPECT_FALSE(link_->last_error().empty());
  });
  server_.Start();
  AwaitUsable();
  EXPECT_EQ(Ask().integer, 1);  // it came back empty, its scripts too
}

TEST_F(RedisLinkTest, AFrozenServerCostsTheDeadlineThenNothingAndItsLateRepliesAreHeard) {
  Open();
  EXPECT_EQ(Ask().integer, 1);
  server_.Freeze();
  std::vector<Call*> calls;
  OnLoop([&] {
    for (int i = 0; i < 20; ++i) calls.push_back(Send(Millis(20)));
  });
  Await([this] { return !link_->usable(); });
  for (const Call* call : calls) {
    EXPECT_GE(call->expired_at.us, call->deadline.us);
    EXPECT_FALSE(call->done);
  }
  OnLoop([&] { EXPECT_EQ(Send(), nullptr); });
  server_.Thaw();
  AwaitUsable();
  for (const Call* call : calls) {
    EXPECT_TRUE(call->done);
    EXPECT_EQ(call->fate, Fate::kReplied);  // they had run, and who sent them hears it
  }
  EXPECT_EQ(Ask().integer, 22);
}

TEST_F(RedisLinkTest, TlsServesOnlyUnderTheRightName) {
  const std::string cert = server_.folder() + "/cert.pem";
  const std::string key = server_.folder() + "/key.pem";
  const std::string make =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=store"
      " -addext subjectAltName=DNS:store.example -keyout " +
      key + " -out " + cert + " 2>/dev/null";
  ASSERT_EQ(std::system(make.c_str()), 0);
  const fixtures::Port port;
  fixtures::RedisClient admin = server_.Connect();
  admin.Must("CONFIG", "SET", "tls-auth-clients", "no", "tls-cert-file", cert, "tls-key-file", key,
             "tls-port", std::to_string(port.number()));
  DialTarget target;
  target.host = "127.0.0.1";
  target.port = port.number();
  target.tls = true;
  target.tls_ca = cert;
  target.tls_name = "store.example";
  Open(target);
  EXPECT_EQ(Ask().integer, 1);
  target.tls_name = "elsewhere.example";
  OnLoop([this] { link_.reset(); });
  Open(target);
  Await([this] { return !link_->last_error().empty(); });
  OnLoop([this] {
    EXPECT_NE(link_->last_error().find("hostname mismatch"), std::string_view::npos) << link_->last_error();
  });
}

TEST_F(RedisLinkTest, AMissingRuleAndAWrongPasswordAreTold) {
  server_.Connect().Must("ACL", "SETUSER", options_.user, "-script|load");
  Open();
  Await([this] { return !link_->last_error().empty(); });
  OnLoop([this] {
    EXPECT_NE(link_->last_error().find("+script|load"), std::string_view::npos) << link_->last_error();
    link_.reset();
    options_.password = "wrong";
  });
  Open();
  Await([this] { return !link_->last_error().empty(); });
  OnLoop([this] {
    EXPECT_NE(link_->last_error().find("WRONGPASS"), std::string_view::npos) << link_->last_error();
  });
}

TEST_F(RedisLinkTest, AMissingRuleInsideAScriptIsTold) {
  server_.Connect().Must("ACL", "SETUSER", options_.user, "-set");
  Open();
  Call& call = Ask();
  EXPECT_EQ(call.fate, Fate::kReplied);  // another script might have written before
  OnLoop(
      [this] { EXPECT_NE(link_->last_error().find("rule"), std::string_view::npos) << link_->last_error(); });
}

}  // namespace
}  // namespace penstock::engine::redis
