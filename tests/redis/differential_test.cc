// The scripts against the judge: random traffic of every kind to a real Redis, and every field of every answer equal.
//
// PENSTOCK_STEPS says how many steps under the test's clock (a tenth of them on the unchanged scripts), PENSTOCK_SEED
// which. `./dev differential` runs the million.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/test_seed.h"
#include "redis/redis_server.h"
#include "redis/script_clock.h"
#include "redis/traffic_player.h"

namespace penstock::fixtures {
namespace {

using engine::redis::Script;

constexpr int64_t kSteps = 60'000;
constexpr int kStepsEach = 60;  // of one traffic
constexpr size_t kAtOnce = 48;

int64_t Steps() {
  const char* const text = std::getenv("PENSTOCK_STEPS");
  return text == nullptr ? kSteps : std::strtoll(text, nullptr, 10);
}

int64_t SystemMicros() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// A server with the scripts of this build, or with others, called by the user that a node is.
class Stage {
 public:
  explicit Stage(std::string_view prelude) : Stage(engine::redis::ScriptsWith(prelude)) {
    own_clock_ = !prelude.empty();
  }
  explicit Stage(std::vector<Script> scripts) : scripts_(std::move(scripts)) { LoadScripts(node_, scripts_); }

  PlayOptions options() const {
    return {.scripts = scripts_, .own_clock = own_clock_, .start_us = SystemMicros(), .favour = favour};
  }
  std::optional<Difference> Play(std::span<const Traffic> traffic, TrafficTally* tally = nullptr) {
    return PlayAll(traffic, options(), node_, client_, tally);
  }
  bool Fails(const Traffic& traffic) { return Play({&traffic, 1}).has_value(); }
  RedisClient& client() { return client_; }

  int64_t favour = 0;

 private:
  std::vector<Script> scripts_;
  bool own_clock_ = true;
  RedisServer server_;
  RedisClient node_ = server_.ConnectAsNode();  // under test
  RedisClient client_ = server_.Connect();
};

// Plays at least that many steps; the first traffic that shows a difference.
std::optional<Traffic> FindDifference(Stage& stage, uint64_t seed, int64_t steps, TrafficTally& tally) {
  for (uint64_t number = seed * 1'000'003; tally.steps < steps;) {
    const int64_t missing = (steps - tally.steps + kStepsEach - 1) / kStepsEach;
    std::vector<Traffic> traffic(std::min(kAtOnce, static_cast<size_t>(missing)));
    for (Traffic& one : traffic) one = MakeTraffic(number++, kStepsEach);
    const std::optional<Difference> difference = stage.Play(traffic, &tally);
    if (difference) return traffic[difference->number];
  }
  return std::nullopt;
}

// What to say of it: as few steps as still show it, in the form of a test.
std::string Explain(Stage& stage, const Traffic& traffic) {
  const Traffic small = Shrink(traffic, [&](const Traffic& t) { return stage.Fails(t); });
  const std::optional<Difference> again = stage.Play({&small, 1});
  return Print(small) + (again ? again->text : "not every time");
}

void Report(const char* what, const TrafficTally& tally) {
  std::printf(
      "%s: %lld steps in %lld calls (%lld shared), %lld asked again; allowed %lld denied %lld never %lld "
      "waited "
      "%lld saturated %lld; %lld changes\n ",
      what, static_cast<long long>(tally.steps), static_cast<long long>(tally.calls),
      static_cast<long long>(tally.together), static_cast<long long>(tally.asked_again),
      static_cast<long long>(tally.allowed), static_cast<long long>(tally.denied),
      static_cast<long long>(tally.never), static_cast<long long>(tally.waited),
      static_cast<long long>(tally.saturated), static_cast<long long>(tally.changed));
  for (int i = 0; i < TrafficStep::kKinds; ++i) {
    std::printf(" %s %lld", NameOf(static_cast<TrafficStep::Kind>(i)),
                static_cast<long long>(tally.kinds[i]));
  }
  std::printf("\n");
}

// Equality says little about what never came.
void ExpectEverythingCame(const TrafficTally& tally) {
  constexpr int64_t kEnough = 3'000;
  if (tally.steps < kEnough) return;
  EXPECT_GT(tally.allowed, tally.steps / 10);
  EXPECT_GT(tally.denied, tally.steps / 20);
  EXPECT_GT(tally.never, tally.steps / 100);
  EXPECT_GT(tally.saturated, 0);
  EXPECT_GT(tally.waited, 0);
  EXPECT_GT(tally.changed, tally.steps / 50);
  EXPECT_GT(tally.together, tally.steps / 20);
}

TEST(Differential, UnderATestsClockEveryFieldOfEveryAnswerIsTheJudges) {
  const uint64_t seed = TestSeed();
  Stage stage(ScriptClock());
  TrafficTally tally;
  const std::optional<Traffic> found = FindDifference(stage, seed, Steps(), tally);
  if (found) FAIL() << Explain(stage, *found);
  Report("test's clock", tally);
  ExpectEverythingCame(tally);
  for (const int64_t played : tally.kinds) EXPECT_TRUE(played > 0 || Steps() < 10'000);
}

TEST(Differential, TheUnchangedScriptsGiveTheJudgesAnswersAtTheClockTheyReturn) {
  const uint64_t seed = TestSeed() + 1;
  Stage stage(std::string_view{});
  TrafficTally tally;
  const std::optional<Traffic> found = FindDifference(stage, seed, Steps() / 10, tally);
  if (found) FAIL() << Explain(stage, *found);
  Report("unchanged", tally);
  ExpectEverythingCame(tally);
}

// That it is long enough is what the test's clock shows: a key that goes too soon is a wrong answer there.
TEST(Differential, EveryKeyHasATimeToLive) {
  Stage stage(std::string_view{});
  std::vector<Traffic> traffic(kAtOnce);
  for (size_t i = 0; i < kAtOnce; ++i) traffic[i] = MakeTraffic(i, kStepsEach);
  const std::optional<Difference> difference = stage.Play(traffic);
  ASSERT_FALSE(difference) << difference->text;
  const ReplyValue keys = stage.client().Must("KEYS", "*");
  EXPECT_GT(keys.items.size(), kAtOnce);
  for (const ReplyValue& key : keys.items)
    EXPECT_NE(stage.client().Must("PTTL", key.text).integer, -1) << key.text;
}

// Failures of the past, cut down.
TEST(Differential, TrafficThatOnceShowedADifference) {
  Stage stage(ScriptClock());
  int played = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_TRAFFIC_FOLDER)) {
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    const std::optional<Traffic> traffic = Parse(text.str());
    ASSERT_TRUE(traffic) << entry.path() << " cannot be read";
    const std::optional<Difference> difference = stage.Play({&*traffic, 1});
    EXPECT_FALSE(difference) << entry.path() << ": " << difference->text;
    ++played;
  }
  EXPECT_GT(played, 0);
}

TEST(Differential, TrafficIsTheSameAfterItWasPrintedAndRead) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string text = Print(MakeTraffic(seed, kStepsEach));
    const std::optional<Traffic> read = Parse(text);
    ASSERT_TRUE(read);
    EXPECT_EQ(Print(*read), text);
  }
}

// Canaries: faults that the comparison must find, and show in few steps.
void ExpectFound(Stage& stage, const char* what) {
  constexpr int64_t kMost = 30'000;
  TrafficTally tally;
  const std::optional<Traffic> found = FindDifference(stage, 1, kMost, tally);
  ASSERT_TRUE(found) << what;
  const Traffic small = Shrink(*found, [&](const Traffic& t) { return stage.Fails(t); });
  EXPECT_LE(small.steps.size(), 6u) << what << "\n" << Print(small);
  EXPECT_TRUE(stage.Fails(small)) << what;
}

TEST(DifferentialCanary, ALimitThatIsOneTooWideIsFound) {
  Stage stage(ScriptClock());
  stage.favour = 1;
  ExpectFound(stage, "one too wide");
}

TEST(DifferentialCanary, FaultsInThePreludeAreFound) {
  // What is wrong, and how `redis` is hidden a second time.
  constexpr std::pair<const char*, const char*> kFaults[] = {
      {"every third write is lost",
       "if name == 'SET' then local n = (real.call('GET', 'pen:n') or 0) + 1; real.call('SET', 'pen:n', n); "
       "if n % 3 == 0 then return {ok = 'OK'} end end"},
      {"half the time to live",
       "if name == 'SET' then local k, v, p, ms, nx = ...; if nx then return real.call(name, k, v, "
       "p, math.ceil(ms / 2), nx) else return real.call(name, k, v, p, math.ceil(ms / 2)) end end"},
      {"a clock that does not go back",
       "if name == 'TIME' then local t = real.call('TIME'); local now = t[1] * 1000000 + t[2]; local last = "
       "tonumber(real.call('GET', 'pen:last') or '0'); if now < last then now = last end; real.call('SET', "
       "'pen:last', "
       "string.format('%.0f', now)); return {string.format('%.0f', math.floor(now / 1000000)), "
       "string.format('%.0f', now % "
       "1000000)} end"},
  };
  for (const auto& [what, fault] : kFaults) {
    const std::string hidden =
        "local function wrong(real, call) return function(name, ...) " + std::string(fault) +
        " return call(name, ...) end end; local redis = (function(real) return "
        "setmetatable({call = wrong(real, real.call), pcall = wrong(real, real.pcall)}, {__index = "
        "real}) end)(redis)\n";
    Stage stage(std::string(ScriptClock()) + hidden);
    ExpectFound(stage, what);
  }
}

}  // namespace
}  // namespace penstock::fixtures
