#include "penstock/limiter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "embed/limiter_impl.h"

namespace penstock {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr std::string_view kPolicy = R"(
domains:
  api:
    limits:
      - {name: per-user, key: [user], rate: 3/min}
      - {name: tokens, key: [user], unit: tokens, rate: 1000/min}
)";

LimiterOptions WithPolicy(std::string_view text) {
  LimiterOptions options;
  options.policy_text = text;
  return options;
}

// A limiter whose time the test moves.
class LimiterTest : public testing::Test {
 protected:
  Limiter Open(const LimiterOptions& options) {
    Expected<Limiter> limiter = LimiterOpener::Open(options, &clock_);
    if (!limiter) {
      ADD_FAILURE() << limiter.error().message;
      std::abort();
    }
    return *std::move(limiter);
  }
  ManualClock clock_{EngineTime{1'800'000'000'000'000}};
};

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void Write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::trunc) << text; }

TEST_F(LimiterTest, RefusesUntilTheStatedInstantAndAdmitsAtIt) {
  Limiter limiter = Open(WithPolicy(kPolicy));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.Check("api", {{"user", "42"}}).allowed);
  const Decision refused = limiter.Check("api", {{"user", "42"}});
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  ASSERT_EQ(refused.retry_after, seconds(20));
  EXPECT_TRUE(limiter.Check("api", {{"user", "43"}}).allowed);
  clock_.Advance({20'000'000 - 1});
  EXPECT_FALSE(limiter.Check("api", {{"user", "42"}}).allowed);
  clock_.Advance({1});
  EXPECT_TRUE(limiter.Check("api", {{"user", "42"}}).allowed);
}

TEST_F(LimiterTest, AWrongRequestIsAnErrorAndDoesNotPass) {
  Limiter limiter = Open(WithPolicy(kPolicy));
  const Decision unknown = limiter.Check("apo", {{"user", "42"}});
  EXPECT_FALSE(unknown.allowed);
  ASSERT_TRUE(unknown.error.has_value());
  EXPECT_EQ(unknown.error->kind, ErrorKind::kNotFound);
  const Decision too_dear = limiter.Check("api", {{"user", "42"}}, {.cost = kMaxCost + 1});
  EXPECT_FALSE(too_dear.allowed);
  ASSERT_TRUE(too_dear.error.has_value());
  EXPECT_EQ(too_dear.error->kind, ErrorKind::kInvalid);
  EXPECT_FALSE(limiter.Check("api", {{"user", "42"}}).error.has_value());
}

TEST_F(LimiterTest, WithoutAPolicyItTakesAdHocLimits) {
  Limiter limiter = Open({});
  EXPECT_TRUE(limiter.Check("api", {{"user", "42"}}).error.has_value());
  AdHocLimit limit{.count = 2, .period = seconds(60)};
  EXPECT_EQ(limiter.Check("user:42", limit).remaining, 1);
  EXPECT_EQ(limiter.Check("user:42", limit, {.cost = 2}).outcome, Outcome::kDenied);
  EXPECT_EQ(limiter.Check("user:42", limit, {.cost = 3}).outcome, Outcome::kNever);
  EXPECT_EQ(limiter.Reset("user:42", limit).remaining, 2);
  limit.count = 0;
  EXPECT_TRUE(limiter.Check("user:42", limit).error.has_value());
}

TEST_F(LimiterTest, AdHocLimitsOfEveryAlgorithm) {
  using Algorithm = AdHocLimit::Algorithm;
  Limiter limiter = Open({});
  for (const Algorithm algorithm :
       {Algorithm::kTokenBucket, Algorithm::kFixedWindow, Algorithm::kFixedWindowFromFirst,
        Algorithm::kSlidingWindow, Algorithm::kSlidingLog}) {
    const AdHocLimit limit{.count = 5, .period = seconds(60), .algorithm = algorithm};
    for (int i = 4; i >= 0; --i) EXPECT_EQ(limiter.Check("k", limit).remaining, i);
    EXPECT_EQ(limiter.Check("k", limit).outcome, Outcome::kDenied);
  }
}

TEST(AdHocLimit, IsReadFromAPolicysText) {
  const Expected<AdHocLimit> limit = AdHocLimit::Parse("5/10s");
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->count, 5);
  EXPECT_EQ(limit->period, seconds(10));
  EXPECT_FALSE(AdHocLimit::Parse("5/10 parsecs"));
  EXPECT_FALSE(AdHocLimit::Parse("unlimited"));
  EXPECT_FALSE(AdHocLimit::Parse("7"));
}

TEST_F(LimiterTest, ManyAtOnceAreDecidedInOrder) {
  Limiter limiter = Open(WithPolicy(kPolicy));
  const std::array<Attribute, 1> user = {{{"user", "42"}}};
  std::vector<Request> requests(2'000);
  for (Request& request : requests) request = {"api", user, {}};
  requests[1].domain = "apo";
  std::vector<Decision> decisions(requests.size() + 5);
  limiter.CheckMany(requests, decisions);
  EXPECT_TRUE(decisions[0].allowed);
  EXPECT_TRUE(decisions[1].error.has_value());
  EXPECT_EQ(decisions[2].remaining, 1);
  EXPECT_EQ(decisions[3].remaining, 0);
  for (size_t i = 4; i < requests.size(); ++i) EXPECT_EQ(decisions[i].outcome, Outcome::kDenied);
  EXPECT_TRUE(decisions[requests.size()].limits.empty());
  // The same array again: nothing of the earlier answers is left.
  clock_.Advance(Seconds(3'600));
  limiter.CheckMany(requests, decisions);
  EXPECT_EQ(decisions[0].limits.size(), 1u);
  EXPECT_EQ(decisions[0].remaining, 2);
}

TEST_F(LimiterTest, TheCallbackIsCalledOnceAndMayCallTheLimiter) {
  Limiter limiter = Open(WithPolicy(kPolicy));
  const std::array<Attribute, 1> user = {{{"user", "42"}}};
  int called = 0;
  limiter.CheckAsync("api", user, {}, [&](const Decision& decision) {
    ++called;
    EXPECT_EQ(decision.remaining, 2);
    EXPECT_EQ(limiter.Check("api", user).remaining, 1);
  });
  EXPECT_EQ(called, 1);
}

TEST_F(LimiterTest, LookChangesNothingAndResetForgets) {
  Limiter limiter = Open(WithPolicy(kPolicy));
  const std::array<Attribute, 1> user = {{{"user", "42"}}};
  limiter.Check("api", user);
  const Decision seen = limiter.Look("api", user);
  ASSERT_EQ(seen.limits.size(), 2u);
  EXPECT_EQ(seen.limits[0].remaining, 2);
  EXPECT_EQ(seen.limits[1].unit, "tokens");
  EXPECT_EQ(limiter.Look("api", user, "per-user").remaining, 2);
  EXPECT_TRUE(limiter.Look("api", user, "per-usr").error.has_value());
  limiter.Reset("api", user, "per-user");
  EXPECT_EQ(limiter.Look("api", user, "per-user").remaining, 3);
}

// Case C39.
TEST_F(LimiterTest, SettleChargesTheDifference) {
  Limiter limiter = Open(WithPolicy(kPolicy));
  const std::array<Attribute, 1> user = {{{"user", "42"}}};
  const UnitCost reserved[] = {{"tokens", 500}};
  CheckOptions options;
  options.costs = reserved;
  options.request_id = "r-1";
  EXPECT_EQ(limiter.Check("api", user, options).remaining, 500);
  EXPECT_TRUE(limiter.Check("api", user, options).replayed);
  const UnitCost less[] = {{"tokens", 100}};
  EXPECT_EQ(limiter.Settle("api", user, "r-1", less).remaining, 900);
  EXPECT_EQ(limiter.Settle("api", user, "r-2", less).error->kind, ErrorKind::kNotFound);
  EXPECT_EQ(limiter.Settle("api", user, "r-1", {}).error->kind, ErrorKind::kInvalid);
  EXPECT_EQ(limiter.Look("api", user, "tokens").remaining, 900);
  const UnitCost other[] = {{"tokens", 501}};
  options.costs = other;
  EXPECT_EQ(limiter.Check("api", user, options).error->kind, ErrorKind::kConflict);
}

TEST_F(LimiterTest, AReloadCarriesUseAndABadOneChangesNothing) {
  TempDir dir;
  LimiterOptions options;
  options.policy_file = dir.File("limits.yaml");
  Write(options.policy_file, "domains: {api: {limits: [{name: hour, key: [user], rate: 10/h}]}}");
  Limiter limiter = Open(options);
  const std::array<Attribute, 1> user = {{{"user", "42"}}};
  const Decision before = limiter.Check("api", user, {.cost = 10});
  EXPECT_FALSE(limiter.Check("api", user).allowed);

  Write(options.policy_file, "domains: {api: {limits: [{name: hour, key: [user], rate: 20/h}]}}");
  ASSERT_TRUE(limiter.Reload());
  for (int i = 9; i >= 0; --i) EXPECT_EQ(limiter.Check("api", user).remaining, i);  // case C31
  EXPECT_FALSE(limiter.Check("api", user).allowed);
  EXPECT_EQ(before.limits[0].name, "hour");  // its policy is gone, its name is not

  Write(options.policy_file, "domains: {api: {limits: [{name: hour, key: [user], rate: 20/hr}]}}");
  const Expected<void> bad = limiter.Reload();
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("limits.yaml:1"), std::string::npos) << bad.error().message;
  EXPECT_EQ(limiter.Check("api", user).limit, 20);
  std::filesystem::remove(options.policy_file);
  EXPECT_FALSE(limiter.Reload());
  EXPECT_EQ(limiter.Check("api", user).limit, 20);
  ASSERT_TRUE(limiter.Reload("domains: {web: {limits: [{name: all, rate: 1/s}]}}"));
  EXPECT_TRUE(limiter.Check("api", user).error.has_value());
  EXPECT_TRUE(limiter.Check("web", {}).allowed);
}

TEST(Limiter, SaysWhyItCannotBeOpened) {
  LimiterOptions options;
  options.policy_file = "/nowhere/limits.yaml";
  EXPECT_FALSE(Limiter::Open(options));
  options.policy_text = kPolicy;
  EXPECT_FALSE(Limiter::Open(options));
  const Expected<Limiter> bad = Limiter::Open(WithPolicy("domains:\n  api:\n    limitz: []\n"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(bad.error().message.find("policy:3"), std::string::npos) << bad.error().message;
  LimiterOptions none;
  none.max_keys = 0;
  EXPECT_FALSE(Limiter::Open(none));
}

TEST(Limiter, CanBeMoved) {
  Expected<Limiter> opened = Limiter::Open(WithPolicy(kPolicy));
  ASSERT_TRUE(opened);
  Limiter first = *std::move(opened);
  EXPECT_EQ(first.Check("api", {{"user", "1"}}).remaining, 2);
  Limiter second = std::move(first);
  EXPECT_EQ(second.Check("api", {{"user", "1"}}).remaining, 1);
  EXPECT_EQ(second.Stats().keys, 1u);
  EXPECT_EQ(second.Stats().checks, 2u);
  EXPECT_STREQ(Version(), PENSTOCK_TEST_VERSION);
}

TEST_F(LimiterTest, AFullTableAnswersUnavailableAsTheOptionSays) {
  for (const bool allow : {false, true}) {
    LimiterOptions options = WithPolicy(kPolicy);
    options.max_keys = 10;
    options.allow_when_full = allow;
    Limiter limiter = Open(options);
    int unavailable = 0;
    for (int i = 0; i < 100; ++i) {
      const std::string user = std::to_string(i);
      const Decision decision = limiter.Check("api", {{"user", user}});
      if (decision.outcome != Outcome::kUnavailable) continue;
      ++unavailable;
      EXPECT_EQ(decision.reason, Reason::kFull);
      EXPECT_TRUE(decision.degraded);
      EXPECT_EQ(decision.allowed, allow);
    }
    EXPECT_EQ(unavailable, 90);
    clock_.Advance(Seconds(3'600));
    EXPECT_EQ(limiter.Check("api", {{"user", "new"}}).outcome, Outcome::kAllowed);
  }
}

TEST_F(LimiterTest, UseOutlivesTheProcessInASnapshot) {
  TempDir dir;
  LimiterOptions options = WithPolicy(kPolicy);
  options.snapshot_file = dir.File("state");
  {
    Limiter limiter = Open(options);
    limiter.Check("api", {{"user", "42"}}, {.cost = 2});
  }  // written at the end
  {
    Limiter limiter = Open(options);
    EXPECT_EQ(limiter.Check("api", {{"user", "42"}}).remaining, 0);
    ASSERT_TRUE(limiter.SaveSnapshot());
    EXPECT_FALSE(LimiterOpener::Open(options, &clock_)) << "two limiters keep one snapshot";
  }
  Write(options.snapshot_file, "not a snapshot");
  EXPECT_FALSE(LimiterOpener::Open(options, &clock_));
  options.discard_bad_snapshot = true;
  Limiter limiter = Open(options);
  EXPECT_EQ(limiter.Check("api", {{"user", "42"}}).remaining, 2);
}

// --- threads --------------------------------------------------------------------------------------------------

constexpr int kThreads = 64;
constexpr int kAsked = 20'000;

template <class Work>
void OnManyThreads(Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, ExactlyTheLimitIsAdmittedWhoeverAsks) {
  Expected<Limiter> limiter =
      Limiter::Open(WithPolicy("domains: {api: {limits: [{name: day, key: [user], rate: 1000/d}]}}"));
  ASSERT_TRUE(limiter);
  std::atomic<int> admitted{0};
  OnManyThreads([&](int thread) {
    const std::array<Attribute, 1> user = {{{"user", "42"}}};
    int mine = 0;
    const int calls = kAsked / kThreads + (thread < kAsked % kThreads ? 1 : 0);
    for (int i = 0; i < calls; ++i) mine += limiter->Check("api", user).allowed ? 1 : 0;
    admitted += mine;
  });
  EXPECT_EQ(admitted, 1'000);
  EXPECT_EQ(limiter->Stats().checks, uint64_t{kAsked});
}

TEST(Threads, ARefusalByOneLimitLeavesTheOtherUntouched) {
  Expected<Limiter> limiter = Limiter::Open(WithPolicy(R"(
domains:
  api:
    limits:
      - {name: wide, key: [group], rate: 100_000/d}
      - {name: narrow, key: [user], rate: 10/d}
)"));
  ASSERT_TRUE(limiter);
  std::atomic<int> admitted{0};
  OnManyThreads([&](int thread) {
    const std::string user = std::to_string(thread % 16);
    const std::array<Attribute, 2> attributes = {{{"group", "g"}, {"user", user}}};
    const std::array<Request, 10> requests = [&] {
      std::array<Request, 10> all;
      for (Request& request : all) request = {"api", attributes, {}};
      return all;
    }();
    std::array<Decision, 10> decisions;
    limiter->CheckMany(requests, decisions);
    for (const Decision& decision : decisions) admitted += decision.allowed ? 1 : 0;
    for (int i = 0; i < 30; ++i) admitted += limiter->Check("api", attributes).allowed ? 1 : 0;
  });
  EXPECT_EQ(admitted, 16 * 10);
  EXPECT_EQ(limiter->Look("api", std::array<Attribute, 1>{{{"group", "g"}}}).remaining, 100'000 - 160);
}

TEST(Threads, ReloadsMeanwhileNeitherLoseNorMintUse) {
  const auto policy = [](int limit) {
    return "domains: {api: {limits: [{name: day, key: [user], rate: " + std::to_string(limit) + "/d}]}}";
  };
  Expected<Limiter> limiter = Limiter::Open(WithPolicy(policy(1'000)));
  ASSERT_TRUE(limiter);
  std::atomic<int> admitted{0};
  std::atomic<int> running{kThreads};
  std::thread reloader([&] {
    for (int i = 0; running.load() > 0 && i < 1'000; ++i) {
      EXPECT_TRUE(limiter->Reload(policy(i % 2 == 0 ? 2'000 : 1'000)));
    }
    EXPECT_TRUE(limiter->Reload(policy(1'500)));
  });
  OnManyThreads([&](int) {
    const std::array<Attribute, 1> user = {{{"user", "42"}}};
    for (int i = 0; i < 200; ++i) {
      const Decision decision = limiter->Check("api", user);
      EXPECT_FALSE(decision.error.has_value());
      EXPECT_NE(decision.outcome, Outcome::kUnavailable);
      admitted += decision.allowed ? 1 : 0;
    }
    --running;
  });
  reloader.join();
  const Decision left = limiter->Look("api", std::array<Attribute, 1>{{{"user", "42"}}});
  EXPECT_LE(admitted, 2'000);
  EXPECT_EQ(left.remaining, std::max(0, 1'500 - admitted.load()));
}

}  // namespace
}  // namespace penstock
