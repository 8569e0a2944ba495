// What is promised to callers, held against the rules alone, over random traffic to one limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/testing/bucket_book.h"
#include "core/testing/scenario.h"
#include "penstock/request.h"

namespace penstock::core::testing {
namespace {

constexpr int kSteps = 60;
constexpr uint64_t kScenarios = 250;  // an algorithm and property
constexpr Algorithm kAlgorithms[] = {Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                     Algorithm::kSlidingWindow, Algorithm::kSlidingLog};

using Property = std::optional<std::string> (*)(const Scenario&);

// Calendar windows are the judge's and the cases' affair: here there are no edges.
Scenario TrafficFor(uint64_t seed, Algorithm algorithm) {
  Scenario scenario = MakeScenario(seed, algorithm, kSteps);
  scenario.limits.resize(1);
  ScenarioLimit& limit = scenario.limits[0];
  if (IsCalendar(limit.spec.window)) {
    limit.spec.window = WindowKind::kEpoch;
    for (RateSpec& later : limit.later) later.window = WindowKind::kEpoch;
  }
  return scenario;
}

uint64_t BaseSeed() {
  const char* const text = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  std::printf("PENSTOCK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

void Hold(Property property) {
  const uint64_t base = BaseSeed();
  for (const Algorithm algorithm : kAlgorithms) {
    for (uint64_t i = 0; i < kScenarios; ++i) {
      const Scenario scenario = TrafficFor(base * 7'919 + i, algorithm);
      if (!property(scenario)) continue;
      const Scenario small = Shrink(scenario, [&](const Scenario& s) { return property(s).has_value(); });
      FAIL() << Describe(small) << *property(small);
    }
  }
}

// Walks a scenario over its one limit; `visit(limit, now, step)` decides and may say what is broken.
template <class Visit>
std::optional<std::string> Walk(const Scenario& scenario, bool changes, bool steps_back, Visit&& visit) {
  const ScenarioLimit& plan = scenario.limits[0];
  TestLimit limit(plan.spec, plan.ad_hoc ? 0 : 1);
  int64_t now = scenario.start_us;
  Verdict last;
  size_t changed = 0;
  for (size_t i = 0; i < scenario.steps.size(); ++i) {
    const Step& step = scenario.steps[i];
    const int64_t moved = InstantOf(step, now, last.retry_after, last.reset_after, limit.limit.params.period);
    now = std::clamp<int64_t>(steps_back ? moved : std::max(moved, now), 0, kMaxExact);
    if (changes && step.change >= 0) limit.Change(plan.later[changed++ % plan.later.size()]);
    std::string broken;
    last = visit(limit, EngineTime{now}, step, broken);
    if (!broken.empty()) return "step " + std::to_string(i) + " at " + std::to_string(now) + ": " + broken;
  }
  return std::nullopt;
}

GroupOptions OptionsOf(const Step& step) {
  return {.max_wait = {step.max_wait_us}, .force = step.force, .partial = step.partial};
}

Verdict Look(const TestLimit& limit, EngineTime now, int64_t cost, const GroupOptions& options) {
  Operation operation = limit.Ask(cost);
  DecideGroup({&operation, 1}, options, now);
  return operation.verdict;
}

bool Admits(const TestLimit& limit, EngineTime now, int64_t cost, const GroupOptions& options) {
  return Look(limit, now, cost, options).outcome == Outcome::kAllowed;
}

// An ad hoc bucket that a charge under this caller's parameters would convert.
bool IsUnconverted(const TestLimit& limit) {
  const BucketView bucket = limit.bucket.View();
  return bucket.present && !(*bucket.params == limit.limit.params);
}

TEST(Promise, ARefusedCallerIsRefusedUntilTheStatedInstantAndAdmittedAtIt) {
  Hold([](const Scenario& scenario) {
    return Walk(scenario, true, true,
                [](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  const GroupOptions options = OptionsOf(step);
                  const Verdict verdict = limit.Decide(now, step.cost[0], options);
                  if (verdict.outcome != Outcome::kDenied) return verdict;
                  if (IsUnconverted(limit) && options.max_wait.count > 0)
                    return verdict;  // told how it would fare, charged
                  const EngineTime stated = now + verdict.retry_after;
                  if (verdict.retry_after.count < 1) broken = "refused without a wait";
                  if (Admits(limit, stated - Micros{1}, step.cost[0], options))
                    broken = "admitted before the stated instant";
                  const EngineTime between = now + Micros{verdict.retry_after.count / 3};
                  if (Admits(limit, between, step.cost[0], options))
                    broken = "admitted well before the stated instant";
                  if (!Admits(limit, stated, step.cost[0], options)) broken = "refused at the stated instant";
                  return verdict;
                });
  });
}

TEST(Promise, AWaitIsTheFirstInstantAtWhichTheRequestWouldPassWithoutIt) {
  Hold([](const Scenario& scenario) {
    return Walk(scenario, true, true,
                [](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  limit.Decide(now, 0, {});  // a conversion happens by itself
                  const Verdict verdict = Look(limit, now, step.cost[0], OptionsOf(step));
                  if (IsUnconverted(limit)) return limit.Decide(now, step.cost[0], OptionsOf(step));
                  if (verdict.wait.count > step.max_wait_us) broken = "waits longer than it may";
                  if (verdict.wait.count > 0) {
                    if (Admits(limit, now + verdict.wait - Micros{1}, step.cost[0], {}))
                      broken = "would have passed before";
                    if (!Admits(limit, now + verdict.wait, step.cost[0], {})) broken = "would not pass then";
                  }
                  return limit.Decide(now, step.cost[0], OptionsOf(step));
                });
  });
}

// Admitted weight in any stretch of time is within the bound of the algorithm (docs/algorithms.md).
std::string AboveBound(const LimitParams& params, const std::vector<LogRun>& admitted) {
  for (size_t i = 0; i < admitted.size(); ++i) {
    __extension__ __int128 sum = 0;
    for (size_t j = i; j < admitted.size(); ++j) {
      sum += admitted[j].weight;
      const int64_t span = admitted[j].at.us - admitted[i].at.us;
      const int64_t period = params.period.count;
      switch (params.algorithm) {
        case Algorithm::kTokenBucket: {
          __extension__ const __int128 room =
              static_cast<__int128>(params.count) * (span + params.tick.count);
          if ((sum - params.capacity) * period > room) return "above burst + rate * (T + tick)";
          break;
        }
        case Algorithm::kSlidingLog:
          if (span < period && sum > params.capacity) return "above the count within a period";
          break;
        default: {
          const bool one_window = params.window == WindowKind::kEpoch
                                      ? admitted[i].at.us / period == admitted[j].at.us / period
                                      : false;
          if (one_window && sum > params.capacity) return "above the count within a window";
          if (span < period && sum > 2 * params.capacity) return "above twice the count within a period";
        }
      }
    }
  }
  return {};
}

TEST(Promise, NeverMoreIsAdmittedThanTheBoundOfTheAlgorithm) {
  Hold([](const Scenario& scenario) {
    std::vector<LogRun> admitted;
    return Walk(scenario, false, false,
                [&](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  const GroupOptions options{.max_wait = {step.max_wait_us}, .partial = step.partial};
                  const Verdict verdict = limit.Decide(now, std::max<int64_t>(step.cost[0], 0), options);
                  if (verdict.taken > 0) admitted.push_back({now + verdict.wait, verdict.taken});
                  std::ranges::sort(admitted, {}, &LogRun::at);
                  broken = AboveBound(limit.limit.params, admitted);
                  return verdict;
                });
  });
}

// The clock that the rules see jumps by up to a day; the real one goes on.
TEST(Promise, AClockThatJumpsToAndFroMintsNothing) {
  const uint64_t base = BaseSeed();
  for (uint64_t seed = base; seed < base + 200; ++seed) {
    Random random(seed);
    TestLimit limit({.count = random.Between(1, 20), .period = Seconds(random.Between(1, 60))});
    const LimitParams& params = limit.limit.params;
    int64_t real = 1'785'000'000'000'000, ahead = 0, taken = 0;
    const int64_t start = real, most_ahead = 86'400'000'000;
    for (int i = 0; i < 200; ++i) {
      real += random.Between(0, 2 * params.period.count / params.count);
      const int64_t skew = random.Between(-most_ahead, 0);
      ahead = std::max(ahead, real + skew);
      taken += limit.Decide({real + skew}, 1).taken;
    }
    // What drained is at most what the furthest instant that the clock showed allows.
    const int64_t seen = std::max<int64_t>(0, ahead - (start - most_ahead));
    EXPECT_LE((taken - params.capacity) * params.period.count, params.count * (seen + 1)) << "seed " << seed;
  }
}

TEST(Promise, AStepBackBlocksAtMostItsSizeAndTheStatedInstantStays) {
  Hold([](const Scenario& scenario) {
    return Walk(
        scenario, false, true, [](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
          const Verdict verdict = limit.Decide(now, step.cost[0], OptionsOf(step));
          const EngineTime back = now - Micros{std::min(now.us, limit.limit.params.period.count / 3 + 7)};
          const Verdict then = Look(limit, back, 1, {});
          const Verdict here = Look(limit, now, 1, {});
          if (here.outcome == Outcome::kDenied && then.outcome != Outcome::kDenied)
            broken = "admitted earlier";
          if (here.outcome == Outcome::kDenied && back + then.retry_after != now + here.retry_after) {
            broken = "the stated instant moved";
          }
          if (then.outcome == Outcome::kAllowed && then.remaining > here.remaining)
            broken = "more was there before";
          return verdict;
        });
  });
}

TEST(Promise, ABucketFromItsIdleInstantOnDecidesAsAnAbsentOne) {
  Hold([](const Scenario& scenario) {
    std::optional<TestLimit> evicted;  // the same traffic to an engine that drops every idle bucket
    return Walk(
        scenario, true, false, [&](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
          if (!evicted) evicted.emplace(scenario.limits[0].spec, limit.limit.version);
          evicted->limit.params = limit.limit.params;
          evicted->limit.version = limit.limit.version;
          if (evicted->bucket.present() && evicted->bucket.IdleAt() <= now) evicted->bucket.Forget();
          // Not where the span from the stored stamp is clamped: it then begins anew at every look.
          const BucketState& state = limit.bucket.state();
          const bool had_use = evicted->bucket.present() &&
                               IdleAt(*limit.bucket.View().params, state) - state.stamp < Micros{kMaxExact};
          const Verdict before = Look(*evicted, now, 0, {});
          if (had_use && limit.bucket.present() && limit.limit.params == *limit.bucket.View().params &&
              before.reset_after != limit.bucket.IdleAt() - now) {
            broken = "reset is not the idle instant";
          }
          const Verdict kept = limit.Decide(now, step.cost[0], OptionsOf(step));
          const Verdict fresh = evicted->Decide(now, step.cost[0], OptionsOf(step));
          const bool same = kept.outcome == fresh.outcome && kept.remaining == fresh.remaining &&
                            kept.retry_after == fresh.retry_after && kept.reset_after == fresh.reset_after &&
                            kept.taken == fresh.taken && kept.wait == fresh.wait;
          if (!same) broken = "an idle bucket is not as an absent one";
          return kept;
        });
  });
}

TEST(Promise, LessFitsWhereverMoreDoesAndRemainingIsTheMostThatFits) {
  Hold([](const Scenario& scenario) {
    return Walk(scenario, true, true,
                [](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  const Verdict verdict = limit.Decide(now, step.cost[0], OptionsOf(step));
                  const Verdict peek = Look(limit, now, 0, {});
                  const int64_t most = std::min(peek.remaining, kMaxCost);
                  if (peek.outcome == Outcome::kAllowed && !Admits(limit, now, most, {}))
                    broken = "remaining does not fit";
                  if (peek.remaining > 0 && peek.outcome != Outcome::kAllowed)
                    broken = "room, but a peek is refused";
                  if (most < kMaxCost && Admits(limit, now, most + 1, {}))
                    broken = "more than remaining fits";
                  const int64_t cost = std::clamp<int64_t>(step.cost[0], 1, limit.limit.params.capacity);
                  const Verdict more = Look(limit, now, cost, {}), less = Look(limit, now, cost / 2, {});
                  if (more.outcome == Outcome::kAllowed && less.outcome != Outcome::kAllowed)
                    broken = "less does not fit";
                  if (less.retry_after > more.retry_after) broken = "less waits longer";
                  return verdict;
                });
  });
}

TEST(Promise, ARefusalAndAPeekLeaveTheBucketAsItWas) {
  Hold([](const Scenario& scenario) {
    return Walk(scenario, false, true,
                [](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  const BucketState state = limit.bucket.state();
                  const std::vector<LogRun> runs = limit.bucket.runs();
                  const Verdict verdict = limit.Decide(now, step.cost[0], OptionsOf(step));
                  const bool same = state == limit.bucket.state() && runs == limit.bucket.runs();
                  if (verdict.outcome != Outcome::kAllowed && (verdict.taken != 0 || !same))
                    broken = "a refusal took something";
                  if (step.cost[0] == 0 && !same) broken = "a peek changed something";
                  return verdict;
                });
  });
}

TEST(Promise, WhatWasUsedStaysUsedWhenALimitChanges) {
  Hold([](const Scenario& scenario) {
    size_t changed = 0;
    return Walk(scenario, false, true,
                [&](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  const Verdict verdict = limit.Decide(now, step.cost[0], OptionsOf(step));
                  if (step.change < 0) return verdict;
                  const Verdict before = Look(limit, now, 0, {});
                  const Micros period = limit.limit.params.period;
                  limit.Change(scenario.limits[0].later[changed++ % scenario.limits[0].later.size()]);
                  const Verdict after = limit.Decide(now, 0, {});
                  const int64_t used = std::min(before.limit - before.remaining, after.limit);
                  const bool log = limit.limit.params.algorithm == Algorithm::kSlidingLog;
                  if (log && limit.limit.params.period < period)
                    return after;  // a shorter period forgets older runs
                  if (!after.saturated && after.limit - after.remaining < used) broken = "use was forgotten";
                  return after;
                });
  });
}

TEST(Promise, AnUndoneChargeLeavesNoTrace) {
  Hold([](const Scenario& scenario) {
    return Walk(scenario, true, true,
                [](TestLimit& limit, EngineTime now, const Step& step, std::string& broken) {
                  if (step.adjust < 0 || step.cost[0] < 1)
                    return limit.Decide(now, step.cost[0], OptionsOf(step));
                  limit.Decide(now, 0, {});  // a conversion happens by itself
                  const Verdict before = Look(limit, now, 0, {});
                  const Verdict verdict = limit.Decide(now, step.cost[0], OptionsOf(step));
                  if (verdict.taken == 0 || verdict.saturated) return verdict;
                  const Verdict after = limit.Adjust(now, limit.charge, -limit.charge.cost);
                  const bool ad_hoc =
                      limit.limit.version == 0;  // converted by the charge, rounded against the caller
                  if (!ad_hoc && after.remaining != before.remaining) broken = "another remaining";
                  if (!ad_hoc && after.outcome != before.outcome) broken = "another outcome";
                  if (!ad_hoc && after.retry_after != before.retry_after) broken = "another wait";
                  if (limit.charge.cost != 0) broken = "the charge still stands";
                  return verdict;
                });
  });
}

}  // namespace
}  // namespace penstock::core::testing
