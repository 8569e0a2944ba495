// The registry inside a real Redis: that its script does what RegistryBook does, step by step on random histories, with
// the script's clock set by a prelude, as the user that a node is; and that RedisRegistry asks in pieces, sends no definition that is there already,
// and says what is wrong.
#include "engine/redis/registry.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "engine/registry_book.h"
#include "redis/redis_server.h"
#include "redis/users.h"

namespace penstock::engine::redis {
namespace {

constexpr EngineTime kStart{1'800'000'000'000'000};
constexpr std::string_view kPrelude =
    "local redis = setmetatable({call = function(command, ...) if command == 'TIME' then "
    "local now = redis.call('GET', 'pen:now') return {string.sub(now, 1, -7), string.sub(now, -6)} end "
    "return redis.call(command, ...) end}, {__index = redis})\n";

// A link that asks a real server at once and blocks; replies are handed over when the test says so.
class BlockingLink final : public ServerLink {
 public:
  explicit BlockingLink(fixtures::RedisClient client) : client_(std::move(client)) {}

  Reason Send(Exchange& exchange) noexcept override {
    if (refuse) return Reason::kEngineDown;
    ++calls;
    exchange.Prepare(clock_);
    bytes += exchange.command().size();
    waiting.push_back(&exchange);
    return Reason::kNone;
  }
  Reason SendAsking(Exchange& exchange) noexcept override { return Send(exchange); }
  // Runs everything that waits.
  void Run() {
    while (!waiting.empty()) {
      Exchange& exchange = *waiting.front();
      waiting.pop_front();
      client_.Send(exchange.command());
      std::span<const resp::ReplyNode> nodes = client_.ReceiveNodes();
      if (nodes.front().type == resp::ReplyType::kError && nodes.front().text.starts_with("NOSCRIPT")) {
        client_.Must("SCRIPT", "LOAD", exchange.script()->text);
        client_.Send(exchange.command());
        nodes = client_.ReceiveNodes();
      }
      exchange.Done(
          {.fate = Fate::kReplied, .nodes = nodes, .reason = Reason::kNone, .received = {}, .link = this});
    }
  }
  bool usable() const override { return true; }
  size_t in_flight() const override { return waiting.size(); }
  ClockOffset& clock() override { return clock_; }
  const DialTarget& target() const override { return target_; }
  std::string_view last_error() const override { return "it is away"; }

  std::deque<Exchange*> waiting;
  size_t calls = 0;
  size_t bytes = 0;
  bool refuse = false;

 private:
  fixtures::RedisClient client_;
  ClockOffset clock_;
  DialTarget target_;
};

class OneLink final : public Topology {
 public:
  explicit OneLink(BlockingLink& link) : link_(link) {}
  ServerLink* LinkFor(int32_t slot) noexcept override {
    EXPECT_GE(slot, 0);
    return &link_;
  }
  bool has_slots() const override { return false; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override { visit(link_); }
  std::vector<LinkInfo> Links() const override { return {}; }
  std::string_view trouble() const override { return {}; }

 private:
  BlockingLink& link_;
};

class HandTimer final : public Timer {
 public:
  Id Schedule(SteadyTime, std::function<void()> task) override {
    tasks.push_back(std::move(task));
    return tasks.size();
  }
  void Cancel(Id id) override { tasks[id - 1] = nullptr; }
  void Fire() {
    for (const std::function<void()>& task : std::exchange(tasks, {})) {
      if (task) task();
    }
  }
  std::vector<std::function<void()>> tasks;
};

class RedisRegistryTest : public ::testing::Test {
 protected:
  RedisRegistryTest() { SetNow(kStart); }

  void SetNow(EngineTime now) {
    now_ = now;
    client_.Must("SET", "pen:now", now.us);
  }
  template <class T>
  struct Heard {
    std::shared_ptr<Result<T>>
        value;  // not an optional: g++ 12 at -O2 frees the text of an Error in one twice
    std::function<void(Result<T>)> Listen() {
      return [this](Result<T> done) {
        EXPECT_FALSE(value) << "heard twice";
        value = std::make_shared<Result<T>>(std::move(done));
      };
    }
  };
  Result<std::vector<RegisteredLimit>> Register(std::vector<Claim> claims) {
    Heard<std::vector<RegisteredLimit>> heard;
    registry_.Register(std::move(claims), heard.Listen());
    link_.Run();
    return *heard.value;
  }
  Result<RegisteredLimit> Put(std::string name, std::string definition,
                              std::optional<core::Version> if_match) {
    Heard<RegisteredLimit> heard;
    registry_.Put("d", std::move(name), std::move(definition), if_match, heard.Listen());
    link_.Run();
    return *heard.value;
  }
  Result<RegisteredLimit> Remove(std::string name, std::optional<core::Version> if_match) {
    Heard<RegisteredLimit> heard;
    registry_.Remove("d", std::move(name), if_match, heard.Listen());
    link_.Run();
    return *heard.value;
  }
  Result<RegistryChanges> Changes(core::Version since) {
    Heard<RegistryChanges> heard;
    registry_.Changes(since, heard.Listen());
    link_.Run();
    return *heard.value;
  }

  fixtures::RedisServer server_;
  fixtures::RedisClient client_ = server_.Connect();
  BlockingLink link_{server_.ConnectAsNode()};
  OneLink topology_{link_};
  HandTimer timer_;
  ManualClock clock_{kStart};
  const std::vector<Script> scripts_ = ScriptsWith(kPrelude);
  RedisRegistry registry_{
      {topology_, timer_, clock_, scripts_[static_cast<size_t>(ScriptKind::kRegistry)], "pen:"}};
  EngineTime now_;
};

std::string Text(const RegisteredLimit& limit) {
  return limit.domain + "/" + limit.name + " v" + std::to_string(limit.version) + " r" +
         std::to_string(limit.revision) + (limit.put ? " put " : " file ") + limit.definition;
}
std::string Text(const Result<RegisteredLimit>& limit) {
  return limit ? Text(*limit) : "error " + limit.error().message;
}
std::string Text(const Result<std::vector<RegisteredLimit>>& limits) {
  if (!limits) return "error " + limits.error().message;
  std::string out;
  for (const RegisteredLimit& limit : *limits) out += Text(limit) + "\n";
  return out;
}
// By name: the orders differ.
std::string Text(const RegistryChanges& changes) {
  std::map<std::string, std::string> limits;
  for (const RegisteredLimit& limit : changes.limits) limits[limit.name] = Text(limit);
  std::string out = "born " + std::to_string(changes.mark.born) + " last " +
                    std::to_string(changes.mark.last) + " sum " + std::to_string(changes.mark.sum) + "\n";
  for (const auto& [name, text] : limits) out += text + "\n";
  return out;
}

Claim RandomClaim(Random& random, const std::vector<core::Version>& versions) {
  Claim claim;
  claim.domain = "d";
  claim.name = "l" + std::to_string(random.Below(6));
  claim.definition = "definition " + std::to_string(random.Below(4));
  claim.revision = static_cast<int64_t>(random.Below(4));
  if (random.Below(3) == 0 && !versions.empty()) {
    claim.held = versions[random.Below(versions.size())] + static_cast<int64_t>(random.Below(3));
    claim.put = random.Below(2) == 0;
    if (!claim.put && random.Below(3) == 0) claim.definition.clear();
    if (claim.definition.empty()) claim.revision = 0;
  }
  if (random.Below(10) == 0 && !versions.empty()) claim.above = versions.back() + 5;
  return claim;
}

TEST_F(RedisRegistryTest, TheScriptDoesWhatTheBookDoes) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  RegistryBook book;
  std::vector<core::Version> versions;
  for (int step = 0; step < 3'000; ++step) {
    const std::string where = "step " + std::to_string(step) + ", seed " + std::to_string(seed);
    SetNow({now_.us + static_cast<int64_t>(random.Below(5)) - 1});
    const std::string name = "l" + std::to_string(random.Below(6));
    std::optional<core::Version> if_match;
    if (random.Below(3) == 0 && !versions.empty()) if_match = versions[random.Below(versions.size())];
    switch (random.Below(5)) {
      case 0: {
        const std::string definition = "put " + std::to_string(random.Below(3));
        ASSERT_EQ(Text(Put(name, definition, if_match)),
                  Text(book.Put("d", name, definition, if_match, now_)))
            << where;
        break;
      }
      case 1:
        ASSERT_EQ(Text(Remove(name, if_match)), Text(book.Remove("d", name, if_match, now_))) << where;
        break;
      default: {
        std::vector<Claim> claims;
        for (size_t i = random.Below(3) + 1; i > 0; --i) {
          Claim claim = RandomClaim(random, versions);
          // Of one limit twice the second would be judged by the state before the first.
          const auto same = [&](const Claim& other) { return other.name == claim.name; };
          if (std::none_of(claims.begin(), claims.end(), same)) claims.push_back(std::move(claim));
        }
        const auto expected = book.Register(claims, now_);
        ASSERT_EQ(Text(Register(claims)), Text(expected)) << where;
        break;
      }
    }
    const core::Version since = random.Below(2) == 0 || versions.empty() ? 0 : versions.back();
    const Result<RegistryChanges> changes = Changes(since);
    ASSERT_TRUE(changes) << changes.error().message;
    ASSERT_EQ(Text(*changes), Text(book.Changes(since))) << where;
    versions.push_back(book.mark().last);
  }
}

TEST_F(RedisRegistryTest, WhatChangesIsPublishedAndNothingElse) {
  fixtures::RedisClient listener = server_.Connect();
  listener.Must("SUBSCRIBE", "pen:hints");
  const auto changed = [&](const Result<RegisteredLimit>& limit) {
    ASSERT_TRUE(limit) << limit.error().message;
    const fixtures::ReplyValue message = listener.Receive();
    EXPECT_EQ(message[1].text, "pen:hints");
    EXPECT_EQ(message[2].text, "limits " + std::to_string(limit->version));
  };
  changed(Put("l", "x", std::nullopt));
  EXPECT_TRUE(Put("l", "x", std::nullopt)) << "which is in force already";
  EXPECT_FALSE(Put("l", "y", 1));
  EXPECT_FALSE(Remove("nothing", std::nullopt));
  EXPECT_TRUE(Changes(0));
  changed(Remove("l", std::nullopt));
  client_.Must("ACL", "SETUSER", fixtures::NodeUser().name, "-publish");
  EXPECT_TRUE(Put("l", "y", std::nullopt)) << "the answer is the same";
  client_.Must("ACL", "SETUSER", fixtures::NodeUser().name, "+publish");
  changed(Put("l", "z", std::nullopt));
}

TEST_F(RedisRegistryTest, AFileThatIsThereAlreadyIsNotSentAgain) {
  std::vector<Claim> claims;
  for (int i = 0; i < 1'000; ++i) {
    Claim& claim = claims.emplace_back();
    claim.domain = "d";
    claim.name = "l" + std::to_string(i);
    claim.definition = std::string(500, 'x') + std::to_string(i);
  }
  const auto first = Register(claims);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_GT(link_.bytes, 500'000u);
  EXPECT_GE(link_.calls, 8u) << "heads and definitions in pieces";
  link_.bytes = 0;
  const auto second = Register(claims);
  EXPECT_EQ(Text(second), Text(first));
  EXPECT_LT(link_.bytes, 100'000u);
  claims[500].definition = "changed";
  const auto third = Register(claims);
  ASSERT_TRUE(third);
  EXPECT_GT((*third)[500].version, (*first)[999].version);
  EXPECT_EQ((*third)[499].version, (*first)[499].version);
  const Result<RegistryChanges> all = Changes(0);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->limits.size(), 1'000u);
  EXPECT_EQ(Changes((*first)[999].version)->limits.size(), 1u);
  EXPECT_EQ(client_.Must("PTTL", "pen:{registry}").integer, -1);
  EXPECT_EQ(client_.Must("PTTL", "pen:{registry}:versions").integer, -1);
  EXPECT_EQ(client_.Must("DBSIZE").integer, 3) << "the third is the test's clock";
}

TEST_F(RedisRegistryTest, LargeDefinitionsAreReadInPieces) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(Put(name, std::string(kMaxDefinitionBytes, *name), std::nullopt));
  }
  link_.calls = 0;
  const Result<RegistryChanges> all = Changes(0);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->limits.size(), 3u);
  EXPECT_EQ(all->limits[2].definition, std::string(kMaxDefinitionBytes, 'c'));
  EXPECT_GE(link_.calls, 3u);
}

TEST_F(RedisRegistryTest, NothingIsWrittenOfALoadThatIsRefused) {
  Claim claim{.domain = "d", .name = "l", .definition = "a", .revision = 7};
  ASSERT_TRUE(Register({claim}));
  std::vector<Claim> claims(600, claim);
  for (size_t i = 0; i < claims.size(); ++i) claims[i].name = "n" + std::to_string(i);
  claims.back() = {.domain = "d", .name = "l", .definition = "b", .revision = 7};
  const auto refused = Register(claims);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_NE(refused.error().message.find("d/l: revision 7"), std::string::npos) << refused.error().message;
  EXPECT_EQ(Changes(0)->limits.size(), 1u);
}

TEST_F(RedisRegistryTest, ForeignValuesAreAnErrorAndChangeNothing) {
  client_.Must("HSET", "pen:{registry}", "d/l", "somebody else's");
  const auto refused = Put("l", "x", std::nullopt);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(refused.error().message.find("somebody else under d/l"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(client_.Must("HGET", "pen:{registry}", "d/l").text, "somebody else's");
  client_.Must("DEL", "pen:{registry}");
  client_.Must("SET", "pen:{registry}", "no hash");
  EXPECT_FALSE(Changes(0));
}

TEST_F(RedisRegistryTest, AForeignValueHidesNoOtherLimit) {
  ASSERT_TRUE(Put("a", "x", std::nullopt));
  ASSERT_TRUE(Put("l", "x", std::nullopt));
  ASSERT_TRUE(Put("z", "x", std::nullopt));
  client_.Must("HSET", "pen:{registry}", "d/l", "somebody else's");
  const Result<RegistryChanges> all = Changes(0);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->limits.size(), 2u);
  EXPECT_EQ(all->limits[0].name, "a");
  EXPECT_EQ(all->limits[1].name, "z");
  EXPECT_FALSE(Register({{.domain = "d", .name = "l", .definition = "x", .put = true, .held = kStart.us}}));
}

TEST_F(RedisRegistryTest, MarksThatNobodyCanGoOnFromAreAnError) {
  ASSERT_TRUE(Put("l", "x", std::nullopt));
  for (const char* last : {"9007199254740992", "1e300", "nan", "-1", "garbage"}) {
    client_.Must("HSET", "pen:{registry}", "last", last);
    const auto refused = Put("l", "y", std::nullopt);
    ASSERT_FALSE(refused) << last;
    EXPECT_NE(refused.error().message.find("marks of somebody else"), std::string::npos)
        << refused.error().message;
    EXPECT_FALSE(Changes(0)) << last;
  }
}

TEST_F(RedisRegistryTest, VersionsThatStandStillEndAReading) {
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Put("l" + std::to_string(i), "x", std::nullopt));
  for (int i = 0; i < 300; ++i)
    client_.Must("ZADD", "pen:{registry}:versions", "9e15", "d/l" + std::to_string(i));
  EXPECT_FALSE(Changes(0));
  EXPECT_FALSE(Changes(kStart.us + 1'000'000));
}

TEST_F(RedisRegistryTest, WhatComesTooLateIsNotDone) {
  link_.clock().Note({kStart.us - 10'000'000}, clock_.Steady());
  const auto late = Put("l", "x", std::nullopt);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(Changes(0).error().kind == ErrorKind::kUnavailable);
  EXPECT_EQ(client_.Must("EXISTS", "pen:{registry}").integer, 0);
}

TEST_F(RedisRegistryTest, AServerThatIsAwayIsTriedAgainForAWhile) {
  Heard<RegisteredLimit> heard;
  link_.refuse = true;
  registry_.Put("d", "l", "x", std::nullopt, heard.Listen());
  EXPECT_FALSE(heard.value);
  link_.refuse = false;
  timer_.Fire();
  link_.Run();
  EXPECT_TRUE(heard.value && *heard.value);
  Heard<RegisteredLimit> again;
  link_.refuse = true;
  registry_.Put("d", "l", "y", std::nullopt, again.Listen());
  for (int i = 0; i < 100 && !again.value; ++i) {
    clock_.Advance(RedisRegistry::kRetry);
    timer_.Fire();
  }
  ASSERT_TRUE(again.value);
  EXPECT_EQ(again.value->error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(again.value->error().message.find("it is away"), std::string::npos);
}

TEST_F(RedisRegistryTest, AfterTheEndNobodyHears) {
  Heard<RegisteredLimit> expired;
  registry_.Put("d", "l", "x", std::nullopt, expired.Listen());
  link_.waiting.front()->Expired();
  ASSERT_TRUE(expired.value);
  EXPECT_EQ(expired.value->error().kind, ErrorKind::kUnavailable);
  link_.Run();  // the reply comes after all
  Heard<RegisteredLimit> closed;
  registry_.Put("d", "l", "y", std::nullopt, closed.Listen());
  registry_.Close();
  link_.Run();
  EXPECT_FALSE(closed.value);
  Heard<RegisteredLimit> after;
  registry_.Put("d", "l", "z", std::nullopt, after.Listen());
  ASSERT_TRUE(after.value);
  EXPECT_FALSE(*after.value);
  auto gone = std::make_unique<RedisRegistry>(
      RegistryParts{topology_, timer_, clock_, scripts_[static_cast<size_t>(ScriptKind::kRegistry)], "pen:"});
  gone->Put("d", "l", "x", std::nullopt, closed.Listen());
  gone.reset();
  link_.Run();
  EXPECT_FALSE(closed.value);
}

}  // namespace
}  // namespace penstock::engine::redis
