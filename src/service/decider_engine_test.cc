// What an engine may answer (stale, unavailable, later, in any order), and what becomes of it.
#include "service/decider_fixture.h"

namespace penstock::service {
namespace {

// --- what the engine may answer ---------------------------------------------------------------------------------

TEST_F(DeciderTest, ConflictAndUnknownIdsAreTheCallersMistakes) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Request request = Ask(kUser42);
  request.options.request_id = "r-1";
  session_.script.push_back({.state = engine::GroupState::kConflict, .now = {}});
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kConflict);

  const UnitCost used[] = {{"requests", 3}};
  request.mode = engine::Mode::kSettle;
  request.options.costs = used;
  session_.script.push_back({.state = engine::GroupState::kUnknownId, .now = {}});
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kNotFound);
  EXPECT_EQ(metrics_.Totals().conflicts, 1u);
}

TEST_F(DeciderTest, ASettleThatNoLimitCountsIsUnknownAndNotAllowed) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  const UnitCost used[] = {{"tokens", 3}};
  Request request = Ask(kUser42);
  request.options.request_id = "r-1";
  request.options.costs = used;
  EXPECT_TRUE(answers_[Check(request)].allowed);  // a check that no limit counts passes
  request.mode = engine::Mode::kSettle;
  EXPECT_EQ(answers_.error(Check(request)).message, "request_id: nothing is kept under \"r-1\"");
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kNotFound);
  Decision decision;
  EXPECT_EQ(decider().DecideNow(request, decision)->kind, ErrorKind::kNotFound);
  Request ad_hoc = request;
  ad_hoc.ad_hoc_key = "k";
  ad_hoc.ad_hoc = Spec("5/min");
  EXPECT_EQ(answers_.error(Check(ad_hoc)).kind, ErrorKind::kNotFound);
  EXPECT_TRUE(session_.seen.empty());
}

TEST_F(DeciderTest, UnavailableFollowsOnFailureAndIsCounted) {
  policy::LimitDefinition allow = MakeLimit("allow", {"user"}, "10/min");
  allow.on_failure = core::OnFailure::kAllow;
  policy::LimitDefinition deny = MakeLimit("deny", {"ip"}, "10/min");
  deny.on_failure = core::OnFailure::kDeny;
  Publish({allow, deny});
  const engine::GroupResult down = {
      .state = engine::GroupState::kUnavailable, .reason = Reason::kEngineDown, .now = {}};
  session_.script = {down, down};
  const Decision allowed = answers_[Check(Ask(kUser42))];
  EXPECT_TRUE(allowed.allowed);
  EXPECT_EQ(allowed.outcome, Outcome::kUnavailable);
  EXPECT_TRUE(allowed.degraded);
  EXPECT_EQ(allowed.reason, Reason::kEngineDown);
  const std::vector<Attribute> both = {{"user", "42"}, {"ip", "10.0.0.1"}};
  EXPECT_FALSE(answers_[Check(Ask(both))].allowed);
  EXPECT_EQ(Counts("allow").degraded[static_cast<size_t>(Outcome::kUnavailable)], 2u);
  EXPECT_EQ(Counts("deny").degraded[static_cast<size_t>(Outcome::kUnavailable)], 1u);
}

TEST_F(DeciderTest, AStaleAnswerIsRepeatedWithTheNewestPolicy) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Check(Ask(kUser42, 10));
  // Another loop has the newer policy already, and writes the bucket under it; this loop was not told yet.
  store_.Publish(MakePolicy({MakeLimit("rpm", {"user"}, "20/min"), MakeLimit("new", {"user"}, "5/min")}),
                 session_, [](Result<void> done) { EXPECT_TRUE(done); });
  ASSERT_EQ(executor_.size(), 1u);
  session_.script.push_back({.state = engine::GroupState::kStale, .now = session_.now});
  decider_->Submit(Ask(kUser42), answers_, 77);
  decider_->Flush();
  const Decision decision = answers_[77];
  EXPECT_TRUE(decision.allowed);  // case C31: what was used stays used, the new room is there at once
  ASSERT_EQ(decision.limits.size(), 2u);
  EXPECT_EQ(decision.limits[0].limit, 20);
  EXPECT_EQ(decision.limits[0].remaining, 9);
  EXPECT_EQ(metrics_.Totals().repeats, 1u);
}

TEST_F(DeciderTest, AStaleAnswerWithoutANewerPolicyIsUnavailable) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  session_.script.push_back({.state = engine::GroupState::kStale, .now = session_.now});
  const Decision decision = answers_[Check(Ask(kUser42))];
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  EXPECT_EQ(decision.reason, Reason::kStale);
  EXPECT_FALSE(decision.allowed);
}

TEST_F(DeciderTest, AStaleClockIsRepeatedWithFreshEdgesAndNotForEver) {
  policy::LimitDefinition monthly = MakeLimit("monthly", {"user"}, "1000");
  monthly.algorithm = core::Algorithm::kFixedWindow;
  monthly.window = core::WindowKind::kMonth;
  Publish({monthly});
  session_.now = EngineTime{1'785'000'000'000'000};
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
  const engine::GroupResult moved = {.state = engine::GroupState::kStaleClock,
                                     .now = session_.now + Seconds(86'400 * 40)};
  session_.script = {moved};
  session_.now = moved.now;
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
  EXPECT_EQ(metrics_.Totals().repeats, 1u);
  session_.script.assign(20, moved);
  const Decision decision = answers_[Check(Ask(kUser42))];
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  EXPECT_EQ(decision.reason, Reason::kStale);
  EXPECT_EQ(metrics_.Totals().repeats, 1u + DeciderImpl::kMaxRepeats);
}

// --- an engine that answers later -----------------------------------------------------------------------------

TEST_F(DeciderTest, AnswersThatComeLaterComeOnceAndInAnyOrder) {
  session_.later = true;
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  {
    const std::string user = "gone when the answer comes, and long enough";
    const std::vector<Attribute> attributes = {{"user", user}};
    for (int i = 0; i < 3; ++i) Submit(Ask(attributes));
  }
  decider().Flush();
  Check(Ask(kUser42));
  EXPECT_EQ(answers_.size(), 0u);
  ASSERT_EQ(session_.waiting(), 4u);
  session_.Answer(3);
  session_.Answer(1);
  session_.AnswerAll();
  EXPECT_EQ(answers_.order(), (std::vector<uint64_t>{4, 2, 1, 3}));
  EXPECT_EQ(answers_[3].remaining, 7);
  EXPECT_EQ(answers_[4].remaining, 9);
}

TEST_F(DeciderTest, TheDeadlineIsTheTimeoutFromTheFlush) {
  options_.timeout = Millis(20);
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Check(Ask(kUser42));
  ASSERT_EQ(session_.deadlines.size(), 1u);
  EXPECT_EQ(session_.deadlines[0], clock_.Steady() + Millis(20));
}

TEST_F(DeciderTest, APolicyStaysWhileItsRequestsAreUnderWay) {
  session_.later = true;
  Publish({MakeLimit("old", {"user"}, "10/min")});
  Check(Ask(kUser42));
  Publish({MakeLimit("new", {"user"}, "20/min")});
  Check(Ask(kUser42));
  session_.AnswerAll();
  EXPECT_EQ(answers_[1].limits[0].name, "old");
  EXPECT_EQ(answers_[2].limits[0].name, "new");
  // The names outlive the policy.
  Publish({MakeLimit("third", {"user"}, "20/min")});
  decider();
  EXPECT_EQ(answers_[1].limits[0].name, "old");
}

TEST_F(DeciderTest, ALateStaleAnswerIsRepeatedFromTheLoopNotFromTheEnginesCall) {
  session_.later = true;
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  {
    const std::string user = "gone when the answer comes, and long enough";
    const std::vector<Attribute> attributes = {{"user", user}};
    Submit(Ask(attributes));
  }
  decider().Flush();
  Publish({MakeLimit("rpm", {"user"}, "20/min")});
  session_.script.push_back({.state = engine::GroupState::kStale, .now = session_.now});
  session_.Answer(0);
  EXPECT_EQ(answers_.size(), 0u);
  EXPECT_EQ(session_.waiting(), 0u);
  executor_.RunAll();
  ASSERT_EQ(session_.waiting(), 1u);
  session_.Answer(0);
  EXPECT_EQ(answers_[1].remaining, 19);
}

TEST_F(DeciderTest, ADetachedReceiverHearsNothing) {
  session_.later = true;
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Answers other;
  Check(Ask(kUser42));
  decider().Submit(Ask(kUser42), other, 1);
  decider().Flush();
  decider().Submit(Ask({}), answers_, 50);
  decider().Detach(answers_);
  decider().Flush();
  session_.AnswerAll();
  EXPECT_EQ(answers_.size(), 0u);
  EXPECT_EQ(other[1].remaining, 8);
}

TEST_F(DeciderTest, TooManyBatchesUnderWayAreAnsweredAsOverload) {
  session_.later = true;
  Publish({MakeLimit("rpm", {"user"}, "1_000_000/min")});
  for (size_t i = 0; i < DeciderImpl::kMaxBatches; ++i) Check(Ask(kUser42));
  EXPECT_EQ(answers_.size(), 0u);
  const Decision refused = answers_[Check(Ask(kUser42))];
  EXPECT_EQ(refused.outcome, Outcome::kUnavailable);
  EXPECT_EQ(refused.reason, Reason::kOverload);
  EXPECT_FALSE(refused.allowed);
  session_.AnswerAll();
  EXPECT_EQ(answers_.size(), DeciderImpl::kMaxBatches + 1);
  session_.later = false;
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
}

// A protocol that parses its next request when it hears the answer to the last.
class Chain final : public Receiver {
 public:
  explicit Chain(DeciderImpl& decider) : decider_(decider) {}
  void Start(const Request& request) {
    request_ = request;
    decider_.Submit(request_, *this, 0);
  }
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override {
    ASSERT_TRUE(decision.has_value());
    remaining.push_back((*decision)->remaining.value_or(-1));
    if (token == 3) return;
    decider_.Submit(request_, *this, token + 1);
    decider_.Flush();
    EXPECT_EQ((*decision)->remaining, remaining.back());  // ours is not overwritten meanwhile
  }
  std::vector<int64_t> remaining;

 private:
  DeciderImpl& decider_;
  Request request_;
};

TEST_F(DeciderTest, AReceiverMaySubmitAndFlushWhileItIsCalled) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Chain inline_chain(decider());
  inline_chain.Start(Ask(kUser42));
  decider().Flush();
  EXPECT_EQ(inline_chain.remaining, (std::vector<int64_t>{9, 8, 7, 6}));

  session_.later = true;
  Chain late_chain(decider());
  late_chain.Start(Ask(kUser42));
  decider().Flush();
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(session_.waiting(), 1u);
    session_.Answer(0);
    executor_.RunAll();
  }
  EXPECT_EQ(late_chain.remaining, (std::vector<int64_t>{5, 4, 3, 2}));
}

// --- the short way ---------------------------------------------------------------------------------------------

TEST_F(DeciderTest, TheShortWayDecidesAsTheLongOne) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Decision decision;
  Request request = Ask(kUser42);
  EXPECT_FALSE(decider().DecideNow(request, decision));
  EXPECT_EQ(decision.remaining, 9);
  EXPECT_EQ(answers_[Check(request)].remaining, 8);
  EXPECT_FALSE(decider().DecideNow(Ask({}), decision));
  EXPECT_TRUE(decision.limits.empty());
  request.domain = "apo";
  EXPECT_EQ(decider().DecideNow(request, decision)->kind, ErrorKind::kNotFound);
  request.domain = "api";
  request.options.cost = kMaxCost + 1;
  EXPECT_EQ(decider().DecideNow(request, decision)->kind, ErrorKind::kInvalid);
  EXPECT_EQ(metrics_.Totals().requests, 5u);
  EXPECT_EQ(metrics_.Totals().invalid, 2u);
  EXPECT_EQ(metrics_.Totals().unmatched, 1u);
}

// A store that has a newer version than this node: the request waits for the reload.
class StaleWait : public DeciderTest {
 protected:
  StaleWait() {
    options_.timeout = Millis(20);
    options_.timer = &timer_;
    session_.later = true;
  }
  void AnswerStale() {
    session_.script.push_back({.state = engine::GroupState::kStale, .now = session_.now});
    session_.Answer(0);
    executor_.RunAll();
  }

  ManualTimer timer_;
};

TEST_F(StaleWait, TheNextPolicyDecidesItWithinTheDeadlineOfTheFirstTime) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  int reloads = 0;
  store_.OnStale([&reloads] { ++reloads; });
  const uint64_t token = Check(Ask(kUser42));
  AnswerStale();
  EXPECT_FALSE(answers_.has(token));
  EXPECT_EQ(session_.waiting(), 0u);
  ASSERT_EQ(timer_.size(), 1u);
  clock_.Advance(Millis(5));
  Publish({MakeLimit("rpm", {"user"}, "20/min")});
  executor_.RunAll();
  EXPECT_EQ(timer_.size(), 0u) << "it does not wait any more";
  ASSERT_EQ(session_.waiting(), 1u);
  EXPECT_EQ(session_.deadlines.back(), session_.deadlines.front());
  session_.Answer(0);
  EXPECT_EQ(answers_[token].limit, 20);
}

TEST_F(StaleWait, WithoutANewPolicyItIsUnavailableAtTheDeadline) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  const uint64_t one = Check(Ask(kUser42));
  const uint64_t two = Check(Ask(kUser42));
  AnswerStale();
  AnswerStale();
  ASSERT_EQ(timer_.size(), 1u) << "they have one deadline";
  clock_.Advance(Millis(20));
  timer_.FireAll();
  executor_.RunAll();
  for (const uint64_t token : {one, two}) {
    const Decision decision = answers_[token];
    EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
    EXPECT_EQ(decision.reason, Reason::kStale);
  }
  EXPECT_EQ(session_.deadlines.size(), 2u) << "the engine was not asked again";
}

TEST_F(StaleWait, AfterTheDeadlineNothingWaits) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  const uint64_t token = Check(Ask(kUser42));
  clock_.Advance(Millis(20));
  AnswerStale();
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(answers_[token].reason, Reason::kStale);
}

TEST_F(StaleWait, ADetachedReceiverHearsNothingAndTheDeciderMayGo) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  Check(Ask(kUser42));
  AnswerStale();
  decider_->Detach(answers_);
  Publish({MakeLimit("rpm", {"user"}, "20/min")});
  executor_.RunAll();
  session_.AnswerAll();
  EXPECT_EQ(answers_.size(), 0u);
  Check(Ask(kUser42));
  AnswerStale();
  ASSERT_EQ(timer_.size(), 1u);
  decider_.reset();
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(DeciderTest, TheShortWayRepeatsWhatIsStaleAndNotForEver) {
  Publish({MakeLimit("rpm", {"user"}, "10/min")});
  decider();
  store_.Publish(MakePolicy({MakeLimit("rpm", {"user"}, "20/min")}), session_,
                 [](const Result<void>& done) { EXPECT_TRUE(done); });
  const engine::GroupResult stale = {.state = engine::GroupState::kStale, .now = session_.now};
  session_.script = {stale};
  Decision decision;
  EXPECT_FALSE(decider_->DecideNow(Ask(kUser42), decision));
  EXPECT_EQ(decision.limit, 20);
  session_.script = {stale};
  EXPECT_FALSE(decider_->DecideNow(Ask(kUser42), decision));
  EXPECT_EQ(decision.outcome, Outcome::kUnavailable);
  EXPECT_EQ(decision.reason, Reason::kStale);
  const engine::GroupResult moved = {.state = engine::GroupState::kStaleClock, .now = session_.now};
  session_.script.assign(DeciderImpl::kMaxRepeats, moved);
  EXPECT_FALSE(decider_->DecideNow(Ask(kUser42), decision));
  EXPECT_EQ(decision.outcome, Outcome::kAllowed);
  session_.script = {{.state = engine::GroupState::kConflict, .now = {}}};
  Request request = Ask(kUser42);
  request.options.request_id = "r";
  EXPECT_EQ(decider_->DecideNow(request, decision)->kind, ErrorKind::kConflict);
}

}  // namespace
}  // namespace penstock::service
