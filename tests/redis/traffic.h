// Random traffic for the differential test: requests of every kind that the Engine contract has, to a few limits whose
// parameters change, under a clock that goes on, stands and steps back, with what may go wrong in a store. Plain data
// made from a seed, so that a failing one can be cut down and committed: as text, which Parse reads.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/testing/scenario.h"

namespace penstock::fixtures {

struct TrafficStep {
  enum class Kind : uint8_t {
    kCheck,
    kNamed,      // a check under a new request id
    kRepeat,     // of an earlier id's request
    kConflict,   // another request under an earlier id
    kSettle,     // of an earlier id, to these costs
    kUndoNamed,  // what a node does whose request was refused elsewhere: the id goes too
    kAdjust,     // changes an earlier charge of one limit
    kUndo,       // takes an earlier request's charges back
    kReset,
    kStale,       // asks by a limit's parameters of before the last change
    kLate,        // the store reads it after its time
    kWrongEdges,  // calendar edges far from the clock
    kForeign,     // something else is under a bucket's key
    kForeignId,   // … under an id's key
    kNewer,       // a layout that this build does not know
  };
  static constexpr int kKinds = 15;

  Kind kind = Kind::kCheck;
  bool together = false;  // in one script call with the step before, where that can be
  bool by_group = false;  // by the script that can do everything
  bool dry = false;
  std::vector<int> limits;  // who take part; `step` names them by their place here
  core::testing::Step step;
  int back = 0;     // the how-manieth id or charge, counted back
  int variant = 0;  // of what is foreign, or of the settle's limits
};

struct Traffic {
  uint64_t seed = 0;
  int64_t start_us = 0;
  int64_t first_version = 1;
  std::vector<core::testing::ScenarioLimit> limits;
  std::vector<TrafficStep> steps;
};

Traffic MakeTraffic(uint64_t seed, int steps);

// The same with as few steps and limits as still fail.
Traffic Shrink(Traffic traffic, const std::function<bool(const Traffic&)>& fails);

// A text that Parse reads back: save it as a file in tests/redis/traffic/ and it is a test.
std::string Print(const Traffic& traffic);
std::optional<Traffic> Parse(const std::string& text);

const char* NameOf(TrafficStep::Kind kind);

}  // namespace penstock::fixtures
