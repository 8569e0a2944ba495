#include "harness.h"

#include <cstdlib>
#include <iostream>

#include "core/group.h"

namespace penstock::conformance {

core::RateSpec Bucket(int64_t count, Micros period, int64_t burst) {
  core::RateSpec spec;
  spec.count = count;
  spec.period = period;
  spec.burst = burst;
  return spec;
}

core::RateSpec Bucket(int64_t count, Micros period) { return Bucket(count, period, count); }

core::RateSpec Fixed(int64_t count, Micros period, core::WindowKind kind) {
  core::RateSpec spec;
  spec.algorithm = core::Algorithm::kFixedWindow;
  spec.window = kind;
  spec.count = count;
  spec.period = period;
  return spec;
}

core::RateSpec Sliding(int64_t count, Micros period) {
  core::RateSpec spec;
  spec.algorithm = core::Algorithm::kSlidingWindow;
  spec.count = count;
  spec.period = period;
  return spec;
}

core::RateSpec Log(int64_t count, Micros period) {
  core::RateSpec spec = Sliding(count, period);
  spec.algorithm = core::Algorithm::kSlidingLog;
  return spec;
}

std::unique_ptr<core::Limit> MakeLimit(std::string name, const core::RateSpec& spec) {
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "d";
  limit->name = std::move(name);
  limit->identity = "d/" + limit->name + "/" + std::to_string(static_cast<int>(spec.algorithm)) + "/" +
                    std::to_string(static_cast<int>(spec.window));
  limit->key_names = {"key"};
  const Result<core::LimitParams> params = core::CompileRate(spec);
  EXPECT_TRUE(params) << (params ? "" : params.error().message);
  if (params) limit->params = *params;
  return limit;
}

Outcome Answer::outcome() const {
  Outcome worst = Outcome::kAllowed;
  for (const Part& part : parts) {
    if (part.skipped || part.verdict.outcome == Outcome::kAllowed) continue;
    if (worst != Outcome::kNever) worst = part.verdict.outcome;
  }
  return worst;
}

class Client::Collector final : public engine::Sink {
 public:
  explicit Collector(size_t groups) : answers_(groups) {}

  void Decided(engine::Batch& batch, engine::Group& group) noexcept override {
    Answer& answer = answers_[group.token];
    EXPECT_TRUE(answer.parts.empty()) << "a group was handed to the sink twice";
    answer.result = group.result;
    for (const core::Operation& operation : batch.operations(group)) {
      answer.parts.push_back({operation.verdict, operation.skipped, operation.charge});
    }
    done_ = ++decided_ == answers_.size();
  }
  const bool& done() const { return done_; }
  std::vector<Answer> Take() { return std::move(answers_); }

 private:
  std::vector<Answer> answers_;
  size_t decided_ = 0;
  bool done_ = false;
};

Result<void> Client::TryRegister(const std::vector<core::Limit*>& limits) {
  bool done = false;
  Result<void> outcome;
  loop_->LearnClock();
  loop_->session().Register(limits, [&](Result<void> result) {
    outcome = std::move(result);
    done = true;
  });
  loop_->RunUntil(done);
  return outcome;
}

void Client::Register(std::initializer_list<core::Limit*> limits) {
  const Result<void> result = TryRegister(limits);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
}

std::vector<Answer> Client::Ask(const std::vector<Request>& requests) {
  batch_.Clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    engine::Group& group = batch_.AddGroup();
    group.mode = request.mode;
    group.options = request.options;
    group.domain = batch_.Copy(request.domain);
    group.request_id = batch_.Copy(request.request_id);
    group.fingerprint = request.fingerprint;
    group.keep_id = request.keep_id;
    group.token = i;
    for (const conformance::Ask& ask : request.asks) {
      const std::string_view key[] = {ask.key};
      core::Operation& operation = batch_.AddOperation(*ask.limit, key);
      operation.cost = ask.cost;
      operation.unit = ask.unit;
      operation.boundaries = ask.boundaries;
      operation.charge = ask.charge;
    }
  }
  Collector collector(requests.size());
  loop_->session().Decide(batch_, loop_->deadline(), collector);
  loop_->RunUntil(collector.done());
  return collector.Take();
}

core::Verdict Client::Check(const core::Limit& limit, int64_t cost, std::string_view key,
                            const core::GroupOptions& options) {
  Request request;
  request.asks = {{&limit, key, cost}};
  request.options = options;
  const Answer answer = Ask(request);
  EXPECT_EQ(answer.result.state, engine::GroupState::kDecided);
  return answer[0];
}

std::unique_ptr<core::Limit> ConformanceTest::Registered(std::string name, const core::RateSpec& spec) {
  std::unique_ptr<core::Limit> limit = MakeLimit(std::move(name), spec);
  client_.Register({limit.get()});
  return limit;
}

std::unique_ptr<core::Limit> ConformanceTest::RegisteredBeside(std::string name, const core::RateSpec& spec) {
  std::unique_ptr<core::Limit> limit = MakeLimit(std::move(name), spec);
  limit->shard_part = 0;
  client_.Register({limit.get()});
  return limit;
}

std::unique_ptr<core::Limit> ConformanceTest::Changed(const core::Limit& limit, const core::RateSpec& spec) {
  return Registered(limit.name, spec);
}

std::string EngineName(const testing::TestParamInfo<EngineFactory>& info) { return info.param.name; }

uint64_t Seed() {
  const char* const text = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = text == nullptr ? 20'261'129 : std::strtoull(text, nullptr, 10);
  std::cout << "PENSTOCK_SEED=" << seed << std::endl;
  return seed;
}

}  // namespace penstock::conformance
