// For the engine's unit tests: limits without a policy, one decision at a time.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/engine.h"

namespace penstock::engine::testing {

inline std::unique_ptr<core::Limit> MakeLimit(EngineSession& session, std::string name,
                                              const core::RateSpec& spec) {
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "d";
  limit->name = std::move(name);
  limit->identity = limit->name + std::to_string(static_cast<int>(spec.algorithm));
  limit->params = *core::CompileRate(spec);
  core::Limit* limits[] = {limit.get()};
  session.Register(limits, [](const Result<void>& result) { EXPECT_TRUE(result); });
  return limit;
}

inline core::RateSpec Rate(core::Algorithm algorithm, int64_t count, Micros period) {
  core::RateSpec spec;
  spec.algorithm = algorithm;
  spec.count = count;
  spec.period = period;
  return spec;
}

// Decides one operation; keeps what came of it.
class OneAtATime final : public Sink {
 public:
  explicit OneAtATime(EngineSession& session) : session_(session) {}

  core::Verdict Check(const core::Limit& limit, std::string_view key, int64_t cost = 1,
                      std::string_view id = {}) {
    batch_.Clear();
    Group& group = batch_.AddGroup();
    group.domain = "d";
    group.request_id = id;
    batch_.AddOperation(limit, std::span(&key, 1)).cost = cost;
    session_.Decide(batch_, SteadyTime{}, *this);
    return batch_.operations()[0].verdict;
  }
  void Decided(Batch&, Group& group) noexcept override { result = group.result; }

  GroupResult result;

 private:
  EngineSession& session_;
  Batch batch_;
};

}  // namespace penstock::engine::testing
