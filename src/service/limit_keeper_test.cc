#include "service/limit_keeper.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/registry_book.h"
#include "policy/reader.h"
#include "service/fake_engine.h"

namespace penstock::service {
namespace {

using engine::RegisteredLimit;

constexpr EngineTime kNow{1'800'000'000'000'000};

// A store's registry that several nodes share, which can be away and can lose what it had.
class SharedRegistry final : public engine::LimitRegistry {
 public:
  void Register(std::vector<engine::Claim> claims, RegisterDone done) override {
    claimed += claims.size();
    if (down) return done(Away());
    done(book.Register(claims, now));
  }
  void Put(std::string domain, std::string name, std::string definition,
           std::optional<core::Version> if_match, ChangeDone done) override {
    if (down) return done(Away());
    done(book.Put(domain, name, definition, if_match, now));
  }
  void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
              ChangeDone done) override {
    if (down) return done(Away());
    done(book.Remove(domain, name, if_match, now));
  }
  void Changes(core::Version since, ChangesDone done) override {
    if (down) return done(Away());
    if (since == 0) ++full_reads;
    done(book.Changes(since));
  }

  engine::RegistryBook book;
  EngineTime now = kNow;
  bool down = false;
  size_t claimed = 0;
  int full_reads = 0;

 private:
  static tl::unexpected<Error> Away() { return Fail(ErrorKind::kUnavailable, "the store is away"); }
};

class NodeSession final : public engine::EngineSession {
 public:
  explicit NodeSession(SharedRegistry& registry) : registry_(registry) {}
  void Decide(engine::Batch&, SteadyTime, engine::Sink&) noexcept override {}
  EngineTime EstimateNow() const override { return registry_.now; }
  engine::LimitRegistry& registry() override { return registry_; }
  Result<void> Bind(std::span<core::Limit* const>) override {
    if (refuse) return Fail(ErrorKind::kTooLarge, "no room");
    return {};
  }
  bool BindAdHoc(core::Limit&) override { return true; }
  bool refuse = false;

 private:
  SharedRegistry& registry_;
};

// One node of the fleet.
class Node {
 public:
  explicit Node(SharedRegistry& registry) : session(registry) {}

  Result<void> Load(std::string_view limits, int64_t revision = 0) {
    std::string text = "domains:\n  api:\n    limits:\n";
    for (size_t at = 0; at < limits.size();) {
      const size_t end = std::min(limits.find('|', at), limits.size());
      text += "      - {" + std::string(limits.substr(at, end - at)) + "}\n";
      at = end + 1;
    }
    policy::Diagnostics diagnostics;
    std::optional<policy::PolicyFile> file = policy::ReadPolicyText(text, "p.yaml", diagnostics);
    EXPECT_EQ(diagnostics.Text(), "");
    auto definition = std::make_shared<policy::PolicyDefinition>();
    definition->revision = revision;
    definition->domains = std::move(file->domains);
    std::optional<Result<void>> result;
    keeper.Load(definition, policy::Policy::Build(*definition, {}, diagnostics),
                [&](Result<void> done) { result = std::move(done); });
    return result.value();
  }
  Result<RegisteredLimit> Put(std::string name, std::string body,
                              std::optional<core::Version> if_match = std::nullopt,
                              std::string domain = "api") {
    std::optional<Result<RegisteredLimit>> result;
    keeper.Put(std::move(domain), std::move(name), std::move(body), if_match,
               [&](Result<RegisteredLimit> done) { result = std::move(done); });
    return result.value();
  }
  Result<RegisteredLimit> Remove(std::string name) {
    std::optional<Result<RegisteredLimit>> result;
    keeper.Remove("api", std::move(name), std::nullopt,
                  [&](Result<RegisteredLimit> done) { result = std::move(done); });
    return result.value();
  }
  Result<void> Poll() {
    std::optional<Result<void>> result;
    keeper.Poll([&](Result<void> done) { result = std::move(done); });
    return result.value();
  }
  // The limit as it is published; null: there is none.
  const core::Limit* Find(std::string_view name, std::string_view domain = "api") {
    newest = store.Newest();
    if (newest->policy == nullptr) return nullptr;
    for (const core::Limit* limit : newest->policy->limits()) {
      if (limit->name == name && limit->domain == domain) return limit;
    }
    return nullptr;
  }
  int64_t Capacity(std::string_view name) {
    const core::Limit* const limit = Find(name);
    return limit == nullptr ? -1 : limit->params.capacity;
  }
  core::Version Version(std::string_view name) {
    const core::Limit* const limit = Find(name);
    return limit == nullptr ? -1 : limit->version;
  }
  bool IsPut(std::string_view name) { return newest->sources[Find(name)->number].put; }

  ManualClock clock{kNow};
  Metrics metrics;
  PolicyStore store{metrics};
  NodeSession session;
  LimitKeeper keeper{{session, store, clock}, {}};
  PolicyPointer newest;
};

class LimitKeeperTest : public ::testing::Test {
 protected:
  SharedRegistry registry_;
  Node a_{registry_};
  Node b_{registry_};
};

TEST_F(LimitKeeperTest, AFileIsRegisteredAndPublishedOnce) {
  ASSERT_TRUE(
      a_.Load("name: l, rate: 10/min | name: m, rate: 5/min, overrides: [{match: {u: x}, rate: 7/min}]"));
  EXPECT_EQ(a_.Capacity("l"), 10);
  EXPECT_GE(a_.Version("l"), kNow.us);
  const uint64_t generation = a_.store.Newest()->generation;
  EXPECT_EQ(generation, 1u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.store.Newest()->generation, generation) << "nothing changed";
  EXPECT_EQ(registry_.claimed, 2u);
  const core::Version version = a_.Version("l");
  ASSERT_TRUE(a_.Load("name: l, rate: 10/min | name: m, rate: 6/min"));
  EXPECT_EQ(a_.Version("l"), version) << "equal content keeps its version";
  EXPECT_GT(a_.Version("m"), version);
}

TEST_F(LimitKeeperTest, APutHoldsOnEveryNodeUntilItIsRemoved) {
  ASSERT_TRUE(a_.Load("name: l, rate: 10/min"));
  ASSERT_TRUE(b_.Load("name: l, rate: 10/min"));
  EXPECT_EQ(a_.Version("l"), b_.Version("l"));
  const Result<RegisteredLimit> put = a_.Put("l", R"({"rate":"3/min"})");
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(a_.Capacity("l"), 3) << "published before the answer";
  EXPECT_EQ(a_.Version("l"), put->version);
  EXPECT_TRUE(a_.IsPut("l"));
  EXPECT_EQ(b_.Capacity("l"), 10);
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(b_.Capacity("l"), 3);
  EXPECT_EQ(b_.Version("l"), put->version);
  // A file that is loaded meanwhile waits for its turn.
  ASSERT_TRUE(b_.Load("name: l, rate: 20/min"));
  EXPECT_EQ(b_.Capacity("l"), 3);
  const Result<RegisteredLimit> removed = a_.Remove("l");
  ASSERT_TRUE(removed);
  EXPECT_GT(removed->version, put->version);
  EXPECT_EQ(a_.Capacity("l"), 20) << "the newest file's";
  EXPECT_FALSE(a_.IsPut("l"));
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(b_.Capacity("l"), 20);
  EXPECT_EQ(b_.Version("l"), removed->version);
  EXPECT_EQ(a_.Remove("l").error().kind, ErrorKind::kNotFound);
}

TEST_F(LimitKeeperTest, APutMakesLimitsAndDomainsThatNoFileHas) {
  ASSERT_TRUE(a_.Load("name: l, rate: 10/min"));
  ASSERT_TRUE(a_.Put("fresh", "rate: 3/min"));
  ASSERT_TRUE(a_.Put("first", "rate: 4/min", std::nullopt, "other"));
  EXPECT_EQ(a_.Capacity("fresh"), 3);
  ASSERT_NE(a_.Find("first", "other"), nullptr);
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(b_.Capacity("fresh"), 3) << "without any file of its own";
  ASSERT_TRUE(b_.Load("name: mine, rate: 1/min"));
  EXPECT_EQ(b_.Capacity("fresh"), 3);
  const Result<RegisteredLimit> removed = b_.Remove("fresh");
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->definition, "");
  EXPECT_EQ(b_.Find("fresh"), nullptr);
  ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.Find("fresh"), nullptr);
  EXPECT_EQ(a_.Capacity("l"), 10);
}

TEST_F(LimitKeeperTest, ARemovedPutGivesANodeItsOwnFileAgainThoughOthersHaveNone) {
  ASSERT_TRUE(a_.Put("l", "rate: 3/min"));
  ASSERT_TRUE(b_.Load("name: l, rate: 10/min"));
  EXPECT_EQ(b_.Capacity("l"), 3);
  ASSERT_TRUE(a_.Poll());
  ASSERT_TRUE(a_.Remove("l"));
  EXPECT_EQ(a_.Find("l"), nullptr) << "it has no file";
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(b_.Capacity("l"), 10);
}

TEST_F(LimitKeeperTest, APutIsRefusedByItsVersionAndByItsContent) {
  ASSERT_TRUE(a_.Load("name: l, rate: 10/min"));
  const core::Version version = a_.Version("l");
  EXPECT_EQ(a_.Put("l", "rate: 3/min", version - 1).error().kind, ErrorKind::kConflict);
  const Result<RegisteredLimit> wrong = a_.Put("l", R"({"rate":"3/min","brst":4})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(wrong.error().message.find("did you mean burst"), std::string::npos) << wrong.error().message;
  EXPECT_EQ(a_.Capacity("l"), 10);
  EXPECT_EQ(a_.Version("l"), version);
  EXPECT_TRUE(a_.Put("l", "rate: 3/min", version));
}

TEST_F(LimitKeeperTest, ALowerRevisionFollowsAndTheSameWithOtherContentIsRefused) {
  ASSERT_TRUE(a_.Load("name: l, rate: 70/min | name: same, rate: 1/min", 7));
  ASSERT_TRUE(b_.Load("name: l, rate: 60/min | name: own, rate: 2/min", 6));
  EXPECT_EQ(b_.Capacity("l"), 70) << "it decides by what the registry holds";
  EXPECT_EQ(b_.Version("l"), a_.Version("l"));
  EXPECT_EQ(b_.Capacity("own"), 2);
  const Result<void> refused = b_.Load("name: l, rate: 65/min | name: new, rate: 9/min", 7);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_NE(refused.error().message.find("api/l: revision 7"), std::string::npos) << refused.error().message;
  EXPECT_EQ(b_.Capacity("own"), 2) << "the policy before stays";
  ASSERT_TRUE(b_.Load("name: l, rate: 80/min", 8));
  ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.Capacity("l"), 80);
  EXPECT_EQ(a_.Version("l"), b_.Version("l"));
}

TEST_F(LimitKeeperTest, WithoutRevisionsTheNewestLoadWins) {
  ASSERT_TRUE(a_.Load("name: l, rate: 1/min"));
  ASSERT_TRUE(b_.Load("name: l, rate: 2/min"));
  ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.Capacity("l"), 2);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(a_.Poll());
    ASSERT_TRUE(b_.Poll());
  }
  EXPECT_EQ(b_.Capacity("l"), 2) << "nobody fights for its own";
  ASSERT_TRUE(a_.Load("name: l, rate: 3/min"));
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(b_.Capacity("l"), 3);
}

// C5e.
TEST_F(LimitKeeperTest, AnEmptiedRegistryComesBackWithWhatNodesHold) {
  ASSERT_TRUE(a_.Load("name: l, rate: 8/min | name: m, rate: 1/min", 8));
  const Result<RegisteredLimit> put = a_.Put("p", "rate: 4/min");
  ASSERT_TRUE(put);
  ASSERT_TRUE(a_.Put("gone", "rate: 4/min"));
  ASSERT_TRUE(a_.Remove("gone"));
  ASSERT_TRUE(a_.Poll());
  const core::Version version = a_.Version("l");
  registry_.book = {};
  registry_.now = kNow + Seconds(5);
  ASSERT_TRUE(b_.Load("name: l, rate: 7/min", 7));  // an older file comes first
  EXPECT_EQ(b_.Capacity("l"), 7);
  ASSERT_TRUE(a_.Poll());
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(a_.Capacity("l"), 8);
  EXPECT_EQ(b_.Capacity("l"), 8);
  EXPECT_GT(a_.Version("l"), version) << "the older file had a version of its own";
  EXPECT_EQ(a_.Version("l"), b_.Version("l"));
  EXPECT_EQ(b_.Capacity("p"), 4);
  EXPECT_EQ(b_.Version("p"), put->version) << "under its own version";
  EXPECT_TRUE(b_.IsPut("p"));
  EXPECT_EQ(b_.Find("gone"), nullptr) << "what was removed stays so";
  const size_t claimed = registry_.claimed;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(a_.Poll());
    ASSERT_TRUE(b_.Poll());
  }
  EXPECT_EQ(registry_.claimed, claimed) << "and then all is quiet";
}

TEST_F(LimitKeeperTest, WhatAPromotedReplicaHasNotSeenComesBack) {
  ASSERT_TRUE(a_.Load("name: l, rate: 8/min | name: m, rate: 1/min"));
  const engine::RegistryBook replica = registry_.book;
  const Result<RegisteredLimit> put = a_.Put("l", "rate: 4/min");
  ASSERT_TRUE(put);
  ASSERT_TRUE(a_.Poll());
  registry_.book = replica;
  registry_.now = kNow + Seconds(5);
  ASSERT_TRUE(b_.Put("other", "rate: 1/min"));  // its newest version is newer than any before
  ASSERT_TRUE(a_.Poll());
  ASSERT_TRUE(b_.Poll());
  EXPECT_EQ(b_.Capacity("l"), 4);
  EXPECT_EQ(b_.Version("l"), put->version);
}

TEST_F(LimitKeeperTest, AVersionThatOnlyBucketsRememberIsPassedInTime) {
  ASSERT_TRUE(a_.Load("name: l, rate: 8/min"));
  const core::Version seen = kNow.us + 1'000'000'000;
  a_.store.ReportStale("api", "l", seen);
  ASSERT_TRUE(a_.Poll());
  EXPECT_LT(a_.Version("l"), seen) << "another node may bring it back";
  a_.clock.Advance(LimitKeeper::kForgotten);
  ASSERT_TRUE(a_.Poll());
  EXPECT_LT(a_.Version("l"), seen) << "nobody met it any more";
  a_.store.ReportStale("api", "l", seen);
  ASSERT_TRUE(a_.Poll());
  for (int i = 0; i < 3; ++i) {
    a_.clock.Advance(LimitKeeper::kPoll);
    a_.store.ReportStale("api", "l", seen);
    ASSERT_TRUE(a_.Poll());
  }
  EXPECT_GT(a_.Version("l"), seen);
  EXPECT_EQ(a_.Capacity("l"), 8);
}

TEST_F(LimitKeeperTest, WithoutAnEngineTheFirstFileIsInForceAndIsRegisteredLater) {
  registry_.down = true;
  const Result<void> loaded = a_.Load("name: l, rate: 8/min");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(a_.Capacity("l"), 8);
  EXPECT_EQ(a_.Version("l"), LimitOverlay::kProvisional);
  EXPECT_FALSE(a_.Poll());
  registry_.down = false;
  ASSERT_TRUE(a_.Poll());
  EXPECT_GE(a_.Version("l"), kNow.us);
  // A later file waits: what is in force has versions that belong to its content.
  registry_.down = true;
  EXPECT_FALSE(a_.Load("name: l, rate: 9/min"));
  EXPECT_EQ(a_.Capacity("l"), 8);
  EXPECT_EQ(a_.Put("l", "rate: 1/min").error().kind, ErrorKind::kUnavailable);
  registry_.down = false;
  ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.Capacity("l"), 9);
}

TEST_F(LimitKeeperTest, WhatCannotBeBoundLeavesThePolicyBefore) {
  ASSERT_TRUE(a_.Load("name: l, rate: 8/min"));
  a_.session.refuse = true;
  EXPECT_EQ(a_.Load("name: l, rate: 9/min").error().kind, ErrorKind::kTooLarge);
  EXPECT_EQ(a_.Capacity("l"), 8);
  a_.session.refuse = false;
  ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.Capacity("l"), 9) << "the registry has it: it is followed";
}

TEST_F(LimitKeeperTest, ADefinitionThatThisNodeCannotUseIsToldAndNeverDecidedBy) {
  ASSERT_TRUE(a_.Load("name: l, rate: 8/min"));
  ASSERT_TRUE(registry_.book.Put("api", "l", R"({"rate":"1/min","of_a_newer_version":1})", std::nullopt,
                                 registry_.now));
  ASSERT_TRUE(registry_.book.Put("api", "m", R"({"permits":1})", std::nullopt, registry_.now));
  ASSERT_TRUE(a_.Poll());
  EXPECT_EQ(a_.Capacity("l"), 8);
  EXPECT_EQ(a_.Version("l"), LimitOverlay::kProvisional) << "buckets of the other version say stale";
  EXPECT_EQ(a_.Find("m"), nullptr);
}

TEST_F(LimitKeeperTest, ChangesWaitInOrderWhileOneIsUnderWay) {
  FakeExecutor home;
  FakeExecutor heavy;
  LimitKeeper keeper({a_.session, a_.store, a_.clock, &home, &heavy}, {});
  const auto run = [&] {
    while (home.size() + heavy.size() > 0) {
      heavy.RunAll();
      home.RunAll();
    }
  };
  std::vector<int64_t> order;
  for (int i = 1; i <= 3; ++i) {
    keeper.Put("api", "l", "rate: " + std::to_string(i) + "/min", std::nullopt,
               [&order, &node = a_](const Result<RegisteredLimit>& done) {
                 ASSERT_TRUE(done);
                 order.push_back(node.Capacity("l"));
               });
  }
  EXPECT_TRUE(order.empty());
  run();
  EXPECT_EQ(order, (std::vector<int64_t>{1, 2, 3}));
  size_t refused = 0;
  for (size_t i = 0; i < LimitKeeper::kMaxWaiting + 5; ++i) {
    keeper.Remove("api", "l", std::nullopt, [&refused](const Result<RegisteredLimit>& done) {
      refused += !done && done.error().kind == ErrorKind::kUnavailable;
    });
    keeper.Put("api", "l", "rate: 9/min", std::nullopt, [&refused](const Result<RegisteredLimit>& done) {
      refused += !done && done.error().kind == ErrorKind::kUnavailable;
    });
  }
  EXPECT_GT(refused, 0u);
  run();
}

}  // namespace
}  // namespace penstock::service
