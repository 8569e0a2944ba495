// What is promised of an outage, on random fleets and traffic in model time: whatever the nodes admit by themselves an
// engine that had seen it all would have admitted too. The judge is such an engine: it gets every local admission.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/random.h"
#include "base/test_seed.h"
#include "service/failover/testing.h"

namespace penstock::service {
namespace {

using core::Algorithm;
using testing::FleetTest;
using testing::kStart;
using testing::Line;

constexpr int kFleets = 25;  // for each algorithm

class Outage : public FleetTest, public ::testing::WithParamInterface<Algorithm> {
 protected:
  core::RateSpec RandomSpec(Random& random) {
    core::RateSpec spec =
        engine::testing::Rate(GetParam(), random.Between(1, 60), Seconds(random.Between(1, 120)));
    if (GetParam() == Algorithm::kTokenBucket) spec.burst = random.Between(1, 60);
    return spec;
  }
  // Begins anew: another fleet on another engine.
  void Begin(uint32_t nodes) {
    nodes_.clear();
    Open(nodes);
    judge_session_.reset();
    judge_ = std::make_unique<engine::MemoryEngine>(engine::MemoryOptions{.max_keys = 100'000, .shards = 1},
                                                    clock_);
    judge_session_ = judge_->OpenSession();
  }
  // The same request to a node; if it admits, the judge must.
  void AskBoth(size_t node, const core::Limit& limit, const core::Limit& judged, int64_t cost,
               const std::string& what) {
    const core::Verdict local = Decide(*nodes_[node]->session, {{&limit, cost}})[0];
    if (local.outcome != Outcome::kAllowed) return;
    const core::Verdict verdict = Decide(*judge_session_, {{&judged, cost}})[0];
    ASSERT_EQ(verdict.outcome, Outcome::kAllowed) << what << ": node " << node << " admitted " << cost;
    admitted_ += cost;
  }
  std::unique_ptr<core::Limit> Judged(const core::RateSpec& spec, const std::string& name) {
    return engine::testing::MakeLimit(*judge_session_, name, spec);
  }
  Micros RandomPause(Random& random, const core::RateSpec& spec) {
    const int64_t step = spec.period.count / std::max<int64_t>(1, random.Between(1, spec.count * 2));
    return {random.Between(0, step)};
  }
  std::string What(uint64_t seed, uint32_t nodes, const core::RateSpec& spec) {
    return "PENSTOCK_SEED=" + std::to_string(seed) + " nodes " + std::to_string(nodes) + ", " +
           std::to_string(spec.count) + " per " + std::to_string(spec.period.count) + " us, burst " +
           std::to_string(spec.burst.value_or(spec.count));
  }

  std::unique_ptr<engine::MemoryEngine> judge_;
  std::unique_ptr<engine::EngineSession> judge_session_;
  int64_t admitted_ = 0;
};

TEST_P(Outage, OfAnUntouchedBucketAllNodesAdmitAtMostTheLimit) {
  const uint64_t seed = TestSeed();
  Random random(seed + static_cast<uint64_t>(GetParam()));
  for (int fleet = 0; fleet < kFleets; ++fleet) {
    const auto nodes = static_cast<uint32_t>(random.Between(1, 7));
    Begin(nodes);
    const core::RateSpec spec = RandomSpec(random);
    const auto limit = Limit(spec, "l" + std::to_string(fleet));
    const auto judged = Judged(spec, limit->name);
    Cut(Line::kDown);
    for (int step = 0; step < 100; ++step) {
      Pass(RandomPause(random, spec));
      AskBoth(random.Below(nodes), *limit, *judged, random.Between(1, 4), What(seed, nodes, spec));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(admitted_, kFleets);
}

TEST_P(Outage, OfABucketThatAllHadSeenTheyAdmitAtMostWhatWasLeft) {
  const uint64_t seed = TestSeed();
  Random random(seed + 100 + static_cast<uint64_t>(GetParam()));
  for (int fleet = 0; fleet < kFleets; ++fleet) {
    const auto nodes = static_cast<uint32_t>(random.Between(1, 7));
    Begin(nodes);
    const core::RateSpec spec = RandomSpec(random);
    const auto limit = Limit(spec, "l" + std::to_string(fleet));
    const auto judged = Judged(spec, limit->name);
    for (int step = 0; step < 20; ++step) {
      Pass(RandomPause(random, spec));
      AskBoth(random.Below(nodes), *limit, *judged, random.Between(1, 4), What(seed, nodes, spec));
    }
    for (uint32_t node = 0; node < nodes; ++node) Check(node, *limit, 0);
    Cut(Line::kDown);
    for (int step = 0; step < 100; ++step) {
      Pass(RandomPause(random, spec));
      AskBoth(random.Below(nodes), *limit, *judged, random.Between(1, 4), What(seed, nodes, spec));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(admitted_, kFleets);
}

// The others go on with the engine, which keeps its limit; what the k admit is within a limit of k shares.
TEST_P(Outage, NodesThatAreCutOffAloneAdmitAtMostTheirSharesOnTop) {
  const uint64_t seed = TestSeed();
  Random random(seed + 200 + static_cast<uint64_t>(GetParam()));
  for (int fleet = 0; fleet < kFleets; ++fleet) {
    const auto nodes = static_cast<uint32_t>(random.Between(2, 7));
    const auto cut = static_cast<uint32_t>(random.Between(1, nodes - 1));
    Begin(nodes);
    const core::RateSpec spec = RandomSpec(random);
    const auto limit = Limit(spec, "l" + std::to_string(fleet));
    const int64_t capacity = limit->params.capacity;
    core::RateSpec part = spec;  // what `cut` shares make together
    int64_t sum = 0;
    for (uint32_t node = 0; node < cut; ++node) sum += capacity / nodes + (node < capacity % nodes ? 1 : 0);
    if (sum == 0) continue;
    if (GetParam() == Algorithm::kTokenBucket) {
      part.count = spec.count * cut;
      part.period = spec.period * nodes;
      part.burst = sum;
    } else {
      part.count = sum;
    }
    const auto judged = Judged(part, limit->name);
    for (uint32_t node = 0; node < cut; ++node) nodes_[node]->line = Line::kDown;
    for (int step = 0; step < 100; ++step) {
      Pass(RandomPause(random, spec));
      const int64_t cost = random.Between(1, 4);
      if (const auto node = static_cast<uint32_t>(random.Below(nodes)); node < cut) {
        AskBoth(node, *limit, *judged, cost, What(seed, nodes, spec));
      } else {
        Check(node, *limit, cost);
        ASSERT_FALSE(result_.degraded);
      }
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(admitted_, kFleets / 2);
}

// After the return the engine knows at least what an engine that had seen it all would, and of windows exactly. (A log
// counts what it is told late with the next run that it keeps.)
TEST_P(Outage, TheBooksAreRightAfterTheReturn) {
  const uint64_t seed = TestSeed();
  Random random(seed + 300 + static_cast<uint64_t>(GetParam()));
  for (int fleet = 0; fleet < kFleets; ++fleet) {
    const auto nodes = static_cast<uint32_t>(random.Between(1, 7));
    Begin(nodes);
    const core::RateSpec spec = RandomSpec(random);
    const auto limit = Limit(spec, "l" + std::to_string(fleet));
    const auto judged = Judged(spec, limit->name);
    const std::string what = What(seed, nodes, spec);
    for (int round = 0; round < 3; ++round) {
      for (int step = 0; step < 20; ++step) {
        Pass(RandomPause(random, spec));
        AskBoth(random.Below(nodes), *limit, *judged, random.Between(1, 4), what);
      }
      for (uint32_t node = 0; node < nodes; ++node) Check(node, *limit, 0);
      Cut(Line::kDown);
      for (int step = 0; step < 60; ++step) {
        Pass(RandomPause(random, spec));
        AskBoth(random.Below(nodes), *limit, *judged, random.Between(1, 4), what);
      }
      Cut(Line::kUp);
      Settle();
      if (HasFatalFailure()) return;
      const int64_t known = Decide(*direct_, {{limit.get(), 0}})[0].remaining;
      const int64_t all = Decide(*judge_session_, {{judged.get(), 0}})[0].remaining;
      if (GetParam() == Algorithm::kTokenBucket || GetParam() == Algorithm::kSlidingLog) {
        ASSERT_LE(known, all) << what;
      } else {
        ASSERT_EQ(known, all) << what;
      }
      for (const auto& node : nodes_) ASSERT_EQ(node->engine.failover_stats().local_buckets, 0u) << what;
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Algorithm>& tested) {
  constexpr const char* kNames[] = {"TokenBucket", "FixedWindow", "SlidingWindow", "SlidingLog"};
  return kNames[static_cast<size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(AllAlgorithms, Outage,
                         ::testing::Values(Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                           Algorithm::kSlidingWindow, Algorithm::kSlidingLog),
                         NameOf);

}  // namespace
}  // namespace penstock::service
