// Random traffic against a few limits, decided twice: by the rules and by the judge (model.h). Every field of every
// answer must be equal. A scenario is plain data made from a seed, so that a failing one can be cut down to the few
// steps that matter and be printed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/group.h"
#include "core/testing/model.h"

namespace penstock::core::testing {

inline constexpr int kMaxScenarioLimits = 3;

struct ScenarioLimit {
  RateSpec spec;
  std::vector<RateSpec> later;  // what it may be changed to; same algorithm and window kind
  bool ad_hoc = false;
  bool shadow = false;
  uint8_t unit = 0;
};

struct Step {
  enum class Clock : uint8_t {
    kForward,  // `amount` us on, or back when negative
    kRetry,    // to the first limit's last stated instant, `amount` us off it
    kReset,    // likewise for its reset
  };
  Clock clock = Clock::kForward;
  int64_t amount = 0;
  int64_t cost[kMaxScenarioLimits] = {};
  int64_t max_wait_us = 0;
  bool force = false;
  bool partial = false;
  int change = -1;      // this limit takes its next parameters before the step
  int adjust = -1;      // instead of a request: change an earlier charge of this limit
  uint32_t charge = 0;  // the how-manieth, counted back
  int64_t delta = 0;    // 0: undo it
};

struct Scenario {
  uint64_t seed = 0;
  int64_t start_us = 0;
  std::vector<ScenarioLimit> limits;
  std::vector<Step> steps;
};

using DecideFunction = std::function<GroupStatus(std::span<Operation>, const GroupOptions&, EngineTime)>;

Scenario MakeScenario(uint64_t seed, Algorithm algorithm, int steps);

struct Tally {
  int64_t steps = 0, allowed = 0, denied = 0, never = 0, waited = 0, saturated = 0, converted = 0,
          adjusted = 0;
};

// The first difference between the rules and the judge, or none.
std::optional<std::string> Play(const Scenario& scenario, const DecideFunction& decide,
                                Tally* tally = nullptr);

// The same scenario with as few steps and limits as still fail.
Scenario Shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails);

// The step's instant: `now` moved as the step says, by what the last answer stated.
int64_t InstantOf(const Step& step, int64_t now_us, Micros last_retry, Micros last_reset, Micros period);

std::string Describe(const Scenario& scenario);

// The parts of the above, for tests that make traffic of their own.
ScenarioLimit PickLimit(Random& random, Algorithm algorithm);
// A step for the scenario's limits, whatever its steps.
Step PickStep(Random& random, const Scenario& scenario);
// Calendar edges around an instant, a day apart and never quite.
std::vector<int64_t> PickEdges(Random& random, int64_t around_us);
// The edges as a node would compute them whose estimate of the engine's clock is off by hours.
WindowBoundaries BoundariesAt(const std::vector<int64_t>& edges, int64_t now_us);
ModelSpec ToModel(const RateSpec& spec, const std::vector<int64_t>& edges);
Verdict FromModel(const ModelVerdict& model);
std::string Show(const Verdict& verdict);

}  // namespace penstock::core::testing
