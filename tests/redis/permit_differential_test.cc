// The scripts of permits against the judge: as differential_test.cc, of whose binary this is a part. Its steps are a half
// of PENSTOCK_STEPS under the test's clock, and a twentieth on the unchanged scripts.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "redis/permit_traffic.h"
#include "redis/redis_server.h"
#include "redis/script_clock.h"

namespace penstock::fixtures {
namespace {

constexpr int64_t kSteps = 60'000;
constexpr int kStepsEach = 60;

int64_t PermitSteps() {
  const char* const text = std::getenv("PENSTOCK_STEPS");
  return (text == nullptr ? kSteps : std::strtoll(text, nullptr, 10)) / 2;
}

class PermitDifferential : public testing::Test {
 protected:
  void Begin(std::string_view prelude) {
    scripts_ = engine::redis::ScriptsWith(prelude);
    own_clock_ = !prelude.empty();
    for (const engine::redis::Script& script : scripts_) node_.Must("SCRIPT", "LOAD", script.text);
  }
  std::optional<std::string> Play(const PermitTraffic& traffic, PermitTally* tally = nullptr) {
    return PlayPermits(traffic, {scripts_, own_clock_, node_, others_}, tally);
  }
  // Nothing, or what differs, in as few steps as still show it.
  std::string FindDifference(uint64_t seed, int64_t steps, PermitTally& tally) {
    for (uint64_t number = seed * 1'000'003; tally.steps < steps; ++number) {
      const PermitTraffic traffic = MakePermitTraffic(number, kStepsEach);
      if (Play(traffic, &tally)) {
        const PermitTraffic small = Shrink(traffic);
        return Print(small) + Play(small).value_or("not every time");
      }
    }
    return "";
  }
  PermitTraffic Shrink(PermitTraffic traffic) {
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (size_t chunk = std::max<size_t>(traffic.steps.size() / 2, 1); chunk > 0; chunk /= 2) {
        for (size_t at = 0; at + chunk <= traffic.steps.size();) {
          PermitTraffic fewer = traffic;
          const auto begin = fewer.steps.begin() + static_cast<std::ptrdiff_t>(at);
          fewer.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(chunk));
          if (!Play(fewer)) {
            at += chunk;
            continue;
          }
          traffic = std::move(fewer);
          smaller = true;
        }
      }
    }
    return traffic;
  }
  static void Report(const char* what, const PermitTally& tally) {
    std::printf("%s:", what);
    const auto say = [](const char* name, int64_t count) {
      std::printf(" %s %lld", name, static_cast<long long>(count));
    };
    say("steps", tally.steps), say("shared", tally.shared), say("granted", tally.granted);
    say("denied", tally.denied), say("queued", tally.queued), say("from the queue", tally.from_queue);
    say("replayed", tally.replayed), say("stale", tally.stale), say("listed", tally.listed);
    say("turns", tally.turns), say("released", tally.by_verb[0]), say("not", tally.by_verb[1]);
    say("renewed", tally.by_verb[2]), say("not", tally.by_verb[3]), say("left", tally.by_verb[4]);
    say("not", tally.by_verb[5]);
    std::printf("\n ");
    for (int i = 0; i < PermitStep::kKinds; ++i)
      say(NameOf(static_cast<PermitStep::Kind>(i)), tally.kinds[static_cast<size_t>(i)]);
    std::printf("\n");
  }
  // Equality says little about what never came.
  static void ExpectEverythingCame(const PermitTally& tally) {
    if (tally.steps < 3'000) return;
    EXPECT_GT(tally.granted, tally.steps / 20);
    EXPECT_GT(tally.denied, tally.steps / 20);
    EXPECT_GT(tally.queued, tally.steps / 50);
    EXPECT_GT(tally.shared, tally.steps / 50);
    for (const int64_t came : {tally.from_queue, tally.replayed, tally.stale, tally.listed, tally.turns})
      EXPECT_GT(came, 0);
    for (const int64_t came : tally.by_verb) EXPECT_GT(came, 0);
    for (const int64_t came : tally.kinds) EXPECT_GT(came, 0);
  }

  std::vector<engine::redis::Script> scripts_;
  bool own_clock_ = false;
  RedisServer server_;
  RedisClient node_ = server_.ConnectAsNode();  // under test
  RedisClient others_ = server_.Connect();
};

TEST_F(PermitDifferential, UnderATestsClockEveryFieldOfEveryAnswerIsTheJudges) {
  Begin(ScriptClock());
  PermitTally tally;
  const std::string found = FindDifference(TestSeed(), PermitSteps(), tally);
  if (!found.empty()) FAIL() << found;
  Report("test's clock", tally);
  ExpectEverythingCame(tally);
}

TEST_F(PermitDifferential, TheUnchangedScriptsGiveTheJudgesAnswersAtTheClockTheyReturn) {
  Begin({});
  PermitTally tally;
  const std::string found = FindDifference(TestSeed() + 1, PermitSteps() / 10, tally);
  if (!found.empty()) FAIL() << found;
  Report("unchanged", tally);
}

}  // namespace
}  // namespace penstock::fixtures
