// What a TrafficPlayer remembers. Included by its two sources only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/testing/model.h"
#include "engine/engine.h"
#include "engine/redis/script_call.h"
#include "redis/traffic_player.h"

namespace penstock::fixtures {

inline constexpr std::string_view kTrafficPrefix = "pen:";
inline constexpr int kFirstNoString = 5;  // TrafficStep::variant of what is foreign
inline constexpr size_t kIdsRemembered = 6;
inline constexpr size_t kChargesRemembered = 6;

// A limit with its one bucket.
struct TrafficPlayer::LimitState {
  core::testing::ScenarioLimit plan;
  std::vector<std::unique_ptr<core::Limit>> versions;  // as nodes had it, one after the other
  core::testing::Model model;
  std::string key;
  int64_t idle_at_us = 0;      // as the last answer said
  int judged_generation = 0;   // of the model's parameters
  int charged_generation = 0;  // of the last charge: ad hoc, the bucket's

  explicit LimitState(core::testing::ModelSpec spec) : model(std::move(spec)) {}
  const core::Limit& now() const { return *versions.back(); }
  int generation() const { return static_cast<int>(versions.size()) - 1; }
  bool finite() const { return plan.spec.kind == core::RateKind::kFinite; }
};

// What a node remembers of a charge that it may take back or change, and what the model does.
struct TrafficPlayer::Charged {
  std::vector<int> limits;
  std::vector<int> generations;
  std::vector<core::Charge> core;
  std::vector<core::testing::ModelCharge> model;
  std::vector<engine::redis::Undo> undo;
};

// A request id: what was asked under it, and what the store must have kept.
struct TrafficPlayer::IdRecord {
  std::string id;
  uint64_t fingerprint = 0;
  TrafficStep asked;  // limits, costs and options of the request
  Micros keep;
  // Kept since the last decision under it.
  bool kept = false;
  bool replayed = false;
  bool settled = false;
  uint64_t fingerprint_kept = 0;
  bool usable = false;  // its charges still mean something to the model
  int64_t expires_us = 0;
  std::vector<int> limits;
  std::vector<core::testing::ModelVerdict> answers;
  Charged charged;
};

// A group that is asked, with the bytes it points to.
struct TrafficPlayer::Group {
  const TrafficStep* step = nullptr;
  size_t number = 0;
  TrafficStep::Kind kind = TrafficStep::Kind::kCheck;
  std::vector<int> limits;
  std::vector<int> generations;
  core::WindowBoundaries edges{};
  engine::Batch batch;
  std::vector<core::Operation*> operations;
  std::vector<std::string_view> keys;
  std::shared_ptr<IdRecord> record;
  std::string id_key;
  Charged charged;  // kAdjust, kUndo
  size_t adjusted = 0;
  int64_t delta = 0;
  bool late = false;
  bool again = false;    // the plain script sent it on
  bool spoiled = false;  // something foreign stands under `spoiled_key`
  std::string spoiled_key;

  engine::Group& group() { return batch.groups()[0]; }
  const core::Operation& operation(size_t i) const { return *operations[i]; }
};

}  // namespace penstock::fixtures
