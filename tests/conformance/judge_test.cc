// Random requests against the judge (core/testing/model.h), which shares no code with the rules: single and grouped
// limits, changes of parameters, request ids with repeats and settles.
#include <map>
#include <optional>
#include <utility>

#include "base/random.h"
#include "core/testing/model.h"
#include "harness.h"

namespace penstock::conformance {
namespace {

using core::testing::Model;
using core::testing::ModelCharge;
using core::testing::ModelKind;
using core::testing::ModelOptions;
using core::testing::ModelOutcome;
using core::testing::ModelRequest;
using core::testing::ModelSpec;
using core::testing::ModelVerdict;

class Judge : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Engines, Judge, testing::ValuesIn(EngineFactories()), EngineName);

ModelVerdict Plain(const core::Verdict& verdict) {
  const ModelOutcome outcome = verdict.outcome == Outcome::kAllowed  ? ModelOutcome::kAllowed
                               : verdict.outcome == Outcome::kDenied ? ModelOutcome::kDenied
                                                                     : ModelOutcome::kNever;
  return {outcome,
          verdict.limit,
          verdict.remaining,
          verdict.taken,
          verdict.retry_after.count,
          verdict.reset_after.count,
          verdict.wait.count,
          verdict.saturated};
}

std::string Text(const ModelVerdict& v) {
  std::string text = std::to_string(static_cast<int>(v.outcome));
  for (const int64_t part : {v.limit, v.remaining, v.taken, v.retry_after_us, v.reset_after_us, v.wait_us}) {
    text += " " + std::to_string(part);
  }
  return text;
}

class JudgedRun {
 public:
  JudgedRun(uint64_t seed, TestEngine& engine, Client& client)
      : random_(seed), engine_(engine), client_(client) {
    for (size_t i = 0; i < kLimits; ++i) Change(i);
    for (int i = 0; i < kKeys; ++i) keys_.push_back("key" + std::to_string(i));
  }

  void Step(int step) {
    where_ = "step " + std::to_string(step);
    const int64_t ms = random_.Below(30) == 0 ? random_.Between(0, 10'000) : random_.Between(0, 40);
    engine_.SetNow(engine_.now() + Millis(ms) + Micros{random_.Between(0, 999)});
    if (random_.Below(100) == 0) Change(random_.Below(kLimits));
    switch (random_.Below(8)) {
      case 0:
        return Together();
      case 1:
        return Named(step);
      case 2:
        return Settle();
      default:
        return Single();
    }
  }

 private:
  static constexpr size_t kLimits = 10;
  static constexpr int kKeys = 25;
  static constexpr size_t kIdsRemembered = 40;

  struct Limit {
    std::unique_ptr<core::Limit> limit;
    ModelSpec spec;
    std::map<std::string, Model> models;
  };
  struct Id {
    std::string id;
    size_t limit = 0;
    std::string key;
    std::optional<ModelCharge> charge;
    ModelVerdict answer;
  };

  void Change(size_t index) {
    Limit& limit = limits_[index];
    const int64_t count = random_.Between(1, 30);
    const Micros period = Millis(random_.Between(1, 4'000));
    const int64_t burst = random_.Between(1, 30);
    core::RateSpec spec;
    limit.spec = {.count = count, .period_us = period.count};
    switch (index % 5) {
      case 0:
        spec = Bucket(count, period, burst);
        limit.spec.burst = burst;
        break;
      case 1:
        spec = Fixed(count, period);
        limit.spec.kind = ModelKind::kFixedEpoch;
        break;
      case 2:
        spec = Fixed(count, period, core::WindowKind::kFirstRequest);
        limit.spec.kind = ModelKind::kFixedFirstRequest;
        break;
      case 3:
        spec = Sliding(count, period);
        limit.spec.kind = ModelKind::kSlidingWindow;
        break;
      default:
        spec = Log(count, period);
        limit.spec.kind = ModelKind::kSlidingLog;
    }
    if (limit.limit != nullptr) old_.push_back(std::move(limit.limit));
    limit.limit = MakeLimit("limit" + std::to_string(index), spec);
    client_.Register({limit.limit.get()});
    for (auto& [key, model] : limit.models) model.Change(limit.spec);
  }
  Model& ModelOf(size_t limit, const std::string& key) {
    return limits_[limit].models.try_emplace(key, Model(limits_[limit].spec)).first->second;
  }
  const std::string& RandomKey() { return keys_[random_.Below(keys_.size())]; }
  int64_t RandomCost() { return random_.Below(6) == 0 ? random_.Between(-10, 35) : random_.Between(0, 4); }
  void Expect(const core::Verdict& verdict, const ModelVerdict& expected) {
    EXPECT_EQ(Plain(verdict), expected)
        << where_ << ": " << Text(Plain(verdict)) << " is not " << Text(expected);
  }
  core::GroupOptions RandomOptions(ModelOptions& options) {
    options.force = random_.Below(25) == 0;
    options.partial = random_.Below(12) == 0;
    if (random_.Below(10) == 0) options.max_wait_us = random_.Between(1, 2'000'000);
    return {{options.max_wait_us}, options.force, options.partial};
  }

  void Single() {
    const size_t limit = random_.Below(kLimits);
    const std::string& key = RandomKey();
    const int64_t cost = RandomCost();
    ModelOptions options;
    const core::GroupOptions given = RandomOptions(options);
    Expect(client_.Check(*limits_[limit].limit, cost, key, given),
           ModelOf(limit, key).Decide(engine_.now().us, cost, options));
  }
  void Together() {
    ModelOptions options;
    Request request;
    request.options = RandomOptions(options);
    std::vector<ModelRequest> judged;
    const size_t first = random_.Below(kLimits);
    const size_t count = random_.Between(2, 5);
    for (size_t i = 0; i < count; ++i) {
      const size_t limit = (first + i * 3) % kLimits;
      const std::string& key = RandomKey();
      const int64_t cost = RandomCost();
      const auto unit = static_cast<uint8_t>(i % 2);
      request.asks.push_back({limits_[limit].limit.get(), key, cost, unit});
      judged.push_back({&ModelOf(limit, key), cost, unit, false});
    }
    const Answer answer = client_.Ask(request);
    const std::vector<ModelVerdict> expected = DecideTogether(judged, options, engine_.now().us);
    for (size_t i = 0; i < count; ++i) Expect(answer[i], expected[i]);
  }
  void Named(int step) {
    Id id{.id = "id" + std::to_string(step),
          .limit = random_.Below(kLimits),
          .key = RandomKey(),
          .charge = {},
          .answer = {}};
    const Request request = RequestOf(id, random_.Between(1, 6));
    Model& model = ModelOf(id.limit, id.key);
    id.answer = model.Decide(engine_.now().us, request.asks[0].cost);
    Expect(client_.Ask(request)[0], id.answer);
    if (model.charge().cost != 0) id.charge = model.charge();
    if (ids_.size() == kIdsRemembered) ids_.erase(ids_.begin());
    ids_.push_back(id);
  }
  void Settle() {
    if (ids_.empty()) return;
    Id& id = ids_[random_.Below(ids_.size())];
    const int64_t cost = random_.Between(0, 9);
    Request request = RequestOf(id, cost);
    request.mode = engine::Mode::kSettle;
    const Answer answer = client_.Ask(request);
    if (!id.charge) {
      EXPECT_EQ(answer.result.state, engine::GroupState::kUnknownId) << where_;
      return;
    }
    const int64_t delta = cost - id.charge->cost;
    Expect(answer[0], ModelOf(id.limit, id.key).Adjust(*id.charge, delta, engine_.now().us));
    id.charge->cost = cost;
    // The repeat of the request itself still gets its first answer.
    request.mode = engine::Mode::kCheck;
    const Answer repeat = client_.Ask(request);
    EXPECT_TRUE(repeat.result.replayed) << where_;
    Expect(repeat[0], id.answer);
  }
  Request RequestOf(const Id& id, int64_t cost) {
    Request request;
    request.asks = {{limits_[id.limit].limit.get(), id.key, cost}};
    request.request_id = id.id;
    request.keep_id = kHour;
    return request;
  }

  Random random_;
  TestEngine& engine_;
  Client& client_;
  std::string where_;
  Limit limits_[kLimits];
  std::vector<std::unique_ptr<core::Limit>> old_;
  std::vector<std::string> keys_;
  std::vector<Id> ids_;
};

TEST_P(Judge, AgreesWithEveryAnswer) {
  constexpr int kSteps = 20'000;
  JudgedRun run(Seed(), *engine_, client_);
  for (int i = 0; i < kSteps && !HasFailure(); ++i) run.Step(i);
}

}  // namespace
}  // namespace penstock::conformance
