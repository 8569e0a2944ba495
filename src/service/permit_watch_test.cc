#include "service/permit_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "service/failover/testing.h"

namespace penstock::service {
namespace {

using testing::ManualTimer;

// Says of a bucket what the test told it.
class SumsSession final : public engine::EngineSession {
 public:
  struct Sums {
    int64_t in_use = 0, held = 0, waiting = 0;
  };

  void Decide(engine::Batch& batch, SteadyTime, engine::Sink& sink) noexcept override {
    ++calls;
    for (engine::Group& group : batch.groups()) {
      EXPECT_EQ(group.mode, engine::Mode::kHolders);
      EXPECT_TRUE(group.listing->sums_only);
      group.result.state = down ? engine::GroupState::kUnavailable : engine::GroupState::kDecided;
      const Sums& sums = of[std::string(batch.operations(group)[0].key[0])];
      group.listing->in_use = sums.in_use;
      group.listing->held = sums.held;
      group.listing->waiting = sums.waiting;
      if (!later) sink.Decided(batch, group);
    }
    if (later) waiting_ = {&batch, &sink};
  }
  void Answer() {
    for (engine::Group& group : waiting_.first->groups()) waiting_.second->Decided(*waiting_.first, group);
  }
  EngineTime EstimateNow() const override { return {}; }
  engine::LimitRegistry& registry() override { std::abort(); }
  Result<void> Bind(std::span<core::Limit* const>) override { return {}; }
  bool BindAdHoc(core::Limit&) override { return true; }

  std::map<std::string, Sums> of;
  int calls = 0;
  bool down = false;
  bool later = false;

 private:
  std::pair<engine::Batch*, engine::Sink*> waiting_;
};

class PermitWatchTest : public ::testing::Test {
 protected:
  PermitWatchTest() {
    limit_.domain = "api";
    limit_.name = "in-flight";
    limit_.params.capacity = 5;
    watch_.Follow(session_, timer_, clock_);
  }
  void Note(const std::string& user) {
    const std::string_view key = user;
    notes_.Note(limit_, {&key, 1}, {1, std::hash<std::string>()(user)}, nullptr);
  }
  PermitGauge Round() {
    clock_.Advance(PermitWatch::kEvery);
    for (int i = 0; i < 400; ++i) timer_.RunDue(clock_.Steady());
    const std::vector<PermitGauge> gauges = watch_.Gauges();
    return gauges.empty() ? PermitGauge{} : gauges[0];
  }

  ManualClock clock_{EngineTime{1'800'000'000'000'000}};
  ManualTimer timer_;
  SumsSession session_;
  core::Limit limit_;
  PermitWatch watch_;
  PermitNotes notes_{&watch_};
};

TEST_F(PermitWatchTest, SumsTheBucketsOfALimit) {
  Note("a");
  Note("b");
  session_.of["a"] = {5, 5, 3};
  session_.of["b"] = {1, 1, 0};
  const PermitGauge gauge = Round();
  EXPECT_EQ(gauge.domain, "api");
  EXPECT_EQ(gauge.limit, "in-flight");
  EXPECT_EQ(gauge.buckets, 2U);
  EXPECT_EQ(gauge.permits, 10);
  EXPECT_EQ(gauge.in_use, 6);
  EXPECT_EQ(gauge.available, 4);
  EXPECT_EQ(gauge.waiting, 3);
  EXPECT_EQ(gauge.exhausted, 1U);
  EXPECT_EQ(gauge.drift, 0);
}

TEST_F(PermitWatchTest, SumAndSetThatDifferAreDriftUntilTheyAgree) {
  Note("a");
  session_.of["a"] = {5, 3, 0};
  EXPECT_EQ(Round().drift, 2);
  session_.of["a"] = {3, 3, 0};
  EXPECT_EQ(Round().drift, 0);
  EXPECT_EQ(Round().drift_total, 2U);
  session_.of["a"] = {6, 6, 0};
  EXPECT_EQ(Round().above, 1U);
}

TEST_F(PermitWatchTest, WhatCannotBeAskedIsSaidAndNotGuessed) {
  Note("a");
  session_.of["a"] = {5, 5, 0};
  session_.down = true;
  const PermitGauge gauge = Round();
  EXPECT_EQ(gauge.unasked, 1U);
  EXPECT_EQ(gauge.in_use, 0);
  session_.down = false;
  EXPECT_EQ(Round().in_use, 5);
}

TEST_F(PermitWatchTest, ABucketThatIsIdleIsForgottenAndItsLimitStaysAtNothing) {
  Note("a");
  session_.of["a"] = {1, 1, 0};
  EXPECT_EQ(Round().in_use, 1);
  session_.of["a"] = {};
  for (int i = 0; i < PermitWatch::kIdleRounds; ++i) EXPECT_EQ(Round().buckets, 1U);
  Round();
  EXPECT_EQ(Round().buckets, 0U);
  const int calls = session_.calls;
  Round();
  EXPECT_EQ(session_.calls, calls);
  Note("a");
  EXPECT_EQ(Round().buckets, 1U) << "a new round notes it again";
}

TEST_F(PermitWatchTest, ManyBucketsAreAskedCallByCall) {
  for (int i = 0; i < 1'000; ++i) Note("u" + std::to_string(i));
  EXPECT_EQ(Round().buckets, 1'000U);
  EXPECT_EQ(session_.calls, 16);
}

TEST_F(PermitWatchTest, AnswersThatComeLaterAndAfterTheStopDoNoHarm) {
  Note("a");
  session_.of["a"] = {2, 2, 0};
  session_.later = true;
  EXPECT_EQ(Round().buckets, 0U);
  session_.Answer();
  EXPECT_EQ(Round().in_use, 2);
  Round();  // asked again
  watch_.Stop();
  session_.Answer();
  EXPECT_EQ(timer_.size(), 0U);
}

}  // namespace
}  // namespace penstock::service
