#include "harness.h"

#include <cstdlib>
#include <iostream>
#include <set>
#include <utility>

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

core::RateSpec Semaphore(int64_t permits, Micros lease) {
  core::RateSpec spec;
  spec.algorithm = core::Algorithm::kPermits;
  spec.count = permits;
  spec.period = lease;
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
    answer.permit = engine::GrantedPermit(batch.operations(group), group.result);
    if (group.result.queued && group.options.permit != nullptr) {
      answer.waiting.id = group.options.permit->id;
      for (const core::Operation& operation : batch.operations(group)) {
        if (!core::IsPermits(*operation.limit)) continue;
        answer.waiting.places[answer.waiting.size++].bucket = operation.name;
      }
    }
    for (const core::Operation& operation : batch.operations(group)) {
      answer.parts.push_back({operation.verdict, operation.skipped, operation.charge, operation.name});
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

class Client::CallCollector final : public engine::PermitSink {
 public:
  explicit CallCollector(size_t calls) : calls_(calls), done_(calls == 0) {}
  void Called(engine::PermitCall&) noexcept override { done_ = ++called_ == calls_; }
  const bool& done() const { return done_; }

 private:
  const size_t calls_;
  size_t called_ = 0;
  bool done_;
};

class Client::Waker final : public engine::PermitWaker {
 public:
  void Woken(const Hash128& permit_id) noexcept override {
    woken_.insert(permit_id);
    Look();
  }
  // True from the moment on at which it has been woken.
  const bool& Expect(const Hash128& permit) {
    expected_ = permit;
    done_ = false;
    Look();
    return done_;
  }

 private:
  void Look() {
    if (expected_ && woken_.erase(*expected_) > 0) {
      done_ = true;
      expected_.reset();
    }
  }

  std::set<Hash128> woken_;
  std::optional<Hash128> expected_;
  bool done_ = false;
};

Client::Client(TestEngine& engine) : loop_(engine.OpenLoop()), waker_(std::make_unique<Waker>()) {
  loop_->session().SetWaker(waker_.get());
}

Client::~Client() { loop_->session().SetWaker(nullptr); }

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
    group.listing = request.listing;
    if (request.permit) group.options.permit = &*request.permit;
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

std::vector<engine::PermitCall> Client::Call(std::vector<engine::PermitCall> calls) {
  CallCollector collector(calls.size());
  loop_->session().CallPermits(calls, loop_->deadline(), collector);
  loop_->RunUntil(collector.done());
  return calls;
}

engine::PermitCall Client::Call(engine::PermitVerb verb, const engine::PermitId& permit, Micros lease) {
  engine::PermitCall call;
  call.verb = verb;
  call.permit = permit;
  call.lease = lease;
  return Call(std::vector{call})[0];
}

engine::HolderList Client::Holders(const core::Limit& limit, std::string_view only, std::string_view key) {
  engine::HolderList list;
  list.only = only;
  Request request;
  request.mode = engine::Mode::kHolders;
  request.asks = {{&limit, key, 0}};
  request.listing = &list;
  EXPECT_EQ(Ask(request).result.state, engine::GroupState::kDecided);
  return list;
}

void Client::RunUntilWoken(const Hash128& permit) { loop_->RunUntil(waker_->Expect(permit)); }

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
