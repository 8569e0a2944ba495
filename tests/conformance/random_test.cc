// Random requests against the core function over a plain map: every field of every verdict must be equal, whatever the
// engine did to keep the state (tables that grow, packed slots, records, evictions, conversions).
#include "base/random.h"

#include <map>
#include <utility>

#include "core/group.h"
#include "core/testing/bucket_book.h"
#include "harness.h"

namespace penstock::conformance {
namespace {

class RandomRequests : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Engines, RandomRequests, testing::ValuesIn(EngineFactories()), EngineName);

// The store that keeps everything as it is given.
class PlainStore {
 public:
  core::GroupStatus Decide(std::vector<core::Operation>& operations, const core::GroupOptions& options,
                           EngineTime now) {
    for (core::Operation& operation : operations) operation.bucket = BucketOf(operation).View();
    const core::GroupStatus status = core::DecideGroup(operations, options, now);
    if (status != core::GroupStatus::kDecided) return status;
    for (const core::Operation& operation : operations)
      BucketOf(operation).Apply(*operation.limit, operation.edit);
    return status;
  }

 private:
  core::testing::StoredBucket& BucketOf(const core::Operation& operation) {
    return buckets_[{operation.limit->identity, std::string(operation.key[0])}];
  }

  std::map<std::pair<std::string, std::string>, core::testing::StoredBucket> buckets_;
};

core::RateSpec RandomSpec(Random& random, int algorithm) {
  const int64_t count = random.Between(1, 30);
  const Micros period = Millis(random.Between(1, 5'000));
  switch (algorithm) {
    case 0:
      return Bucket(count, period, random.Between(1, 30));
    case 1:
      return Fixed(count, period);
    case 2:
      return Fixed(count, period, core::WindowKind::kFirstRequest);
    case 3:
      return Sliding(count, period);
    default:
      return Log(count, period);
  }
}

void ExpectEqual(const core::Verdict& a, const core::Verdict& b, const std::string& where) {
  EXPECT_EQ(a.outcome, b.outcome) << where;
  EXPECT_EQ(a.saturated, b.saturated) << where;
  EXPECT_EQ(a.limit, b.limit) << where;
  EXPECT_EQ(a.remaining, b.remaining) << where;
  EXPECT_EQ(a.taken, b.taken) << where;
  EXPECT_EQ(a.retry_after, b.retry_after) << where;
  EXPECT_EQ(a.reset_after, b.reset_after) << where;
  EXPECT_EQ(a.wait, b.wait) << where;
}

class RandomRun {
 public:
  RandomRun(uint64_t seed, TestEngine& engine, Client& client)
      : random_(seed), engine_(engine), client_(client) {
    for (int i = 0; i < kLimits; ++i) {
      limits_.push_back(MakeLimit("limit" + std::to_string(i), RandomSpec(random_, i % 5)));
      if (i % 4 == 3) limits_.back()->shadow = true;
      client_.Register({limits_.back().get()});
    }
    for (int i = 0; i < kKeys; ++i) keys_.push_back("key" + std::to_string(i));
  }

  void Step(int step) {
    if (random_.Below(50) == 0) ChangeOne();
    // Forward only: after a step back a bucket that was idle, and so may have been dropped, would count again.
    const int64_t ms = random_.Below(20) == 0 ? random_.Between(0, 20'000) : random_.Between(0, 60);
    engine_.SetNow(engine_.now() + Millis(ms) + Micros{random_.Between(0, 999)});
    std::vector<Request> requests(random_.Below(kRequests) + 1);
    for (size_t i = 0; i < requests.size(); ++i) FillRequest(requests[i], i);
    const std::vector<Answer> answers = client_.Ask(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      Compare(requests[i], answers[i], "step " + std::to_string(step) + " request " + std::to_string(i));
    }
  }

 private:
  static constexpr int kLimits = 15;
  static constexpr int kKeys = 40;
  static constexpr size_t kRequests = 5;  // at most, in one batch

  void ChangeOne() {
    const size_t i = random_.Below(kLimits);
    auto changed = MakeLimit(limits_[i]->name, RandomSpec(random_, static_cast<int>(i % 5)));
    changed->shadow = limits_[i]->shadow;
    client_.Register({changed.get()});
    old_.push_back(std::move(limits_[i]));
    limits_[i] = std::move(changed);
  }
  // Where the engine does not keep their order, requests of one batch have their own keys.
  const std::string& KeyFor(size_t number) {
    const size_t all = random_.Below(kKeys);
    return keys_[engine_.keeps_order() ? all : all - all % kRequests + number];
  }
  void FillRequest(Request& request, size_t number) {
    const size_t count = random_.Below(3) == 0 ? random_.Below(5) + 1 : 1;
    const size_t first = random_.Below(kLimits);
    for (size_t i = 0; i < count; ++i) {
      const core::Limit& limit = *limits_[(first + i * 4) % kLimits];
      const int64_t least = count == 1 || engine_.in_one_place() ? -10 : 0;
      const int64_t cost = random_.Below(8) == 0 ? random_.Between(least, 40) : random_.Between(0, 3);
      request.asks.push_back({&limit, KeyFor(number), cost, static_cast<uint8_t>(i % 2)});
    }
    request.options.force = random_.Below(20) == 0;
    request.options.partial = random_.Below(10) == 0;
    if (random_.Below(10) == 0) request.options.max_wait = Millis(random_.Between(1, 2'000));
  }
  void Compare(const Request& request, const Answer& answer, const std::string& where) {
    std::vector<std::string_view> keys;
    for (const Ask& ask : request.asks) keys.push_back(ask.key);
    std::vector<core::Operation> operations(request.asks.size());
    for (size_t i = 0; i < operations.size(); ++i) {
      operations[i].limit = request.asks[i].limit;
      operations[i].key = {&keys[i], 1};
      operations[i].cost = request.asks[i].cost;
      operations[i].unit = request.asks[i].unit;
    }
    ASSERT_EQ(store_.Decide(operations, request.options, engine_.now()), core::GroupStatus::kDecided)
        << where;
    ASSERT_EQ(answer.result.state, engine::GroupState::kDecided) << where;
    for (size_t i = 0; i < operations.size(); ++i) {
      ExpectEqual(answer[i], operations[i].verdict, where + " limit " + operations[i].limit->name);
    }
  }

  Random random_;
  TestEngine& engine_;
  Client& client_;
  PlainStore store_;
  std::vector<std::unique_ptr<core::Limit>> limits_;
  std::vector<std::unique_ptr<core::Limit>> old_;
  std::vector<std::string> keys_;
};

TEST_P(RandomRequests, AreAnsweredAsTheCoreFunctionOverAPlainMapAnswers) {
  constexpr int kSteps = 20'000;
  RandomRun run(Seed(), *engine_, client_);
  for (int i = 0; i < kSteps && !HasFailure(); ++i) run.Step(i);
}

}  // namespace
}  // namespace penstock::conformance
