// The decider on an engine that answers inline or later, as the test says.
#include <gtest/gtest.h>

#include "service/decider_impl.h"
#include "service/fake_engine.h"
#include "service/names.h"
#include "service/test_support.h"

namespace penstock::service {
namespace {

class DeciderTest : public testing::Test {
 protected:
  void Publish(std::vector<policy::LimitDefinition> limits) {
    Result<void> published;
    store_.Publish(MakePolicy(std::move(limits)), session_,
                   [&published](Result<void> done) { published = done; });
    ASSERT_TRUE(published.has_value());
  }
  DeciderImpl& decider() {
    if (decider_ == nullptr) {
      decider_ = std::make_unique<DeciderImpl>(engine_, session_, executor_, clock_, store_,
                                               metrics_.AddLoop(), options_);
    }
    executor_.RunAll();
    return *decider_;
  }
  static Request Ask(std::span<const Attribute> attributes, int64_t cost = 1) {
    Request request;
    request.domain = "api";
    request.attributes = attributes;
    request.options.cost = cost;
    return request;
  }
  void Submit(const Request& request) { decider().Submit(request, answers_, next_token_++); }
  // Asks and gives the answer's token.
  uint64_t Check(const Request& request) {
    Submit(request);
    decider().Flush();
    return next_token_ - 1;
  }
  LimitCounts Counts(std::string_view name) {
    LimitCounts counts;
    metrics_.ForEachLimit([&](std::string_view, std::string_view limit, const LimitCounts& of_limit) {
      if (limit == name) counts = of_limit;
    });
    return counts;
  }

  FakeEngine engine_;
  FakeSession session_;
  FakeExecutor executor_;
  ManualClock clock_{EngineTime{5'000'000}};
  Metrics metrics_;
  PolicyStore store_{metrics_};
  DeciderOptions options_;
  Answers answers_;
  uint64_t next_token_ = 1;
  std::unique_ptr<DeciderImpl> decider_;
};

const std::vector<Attribute> kUser42 = {{"user", "42"}};

TEST_F(DeciderTest, AnswersByTheLimitsThatMatch) {
  Publish({MakeLimit("per-user", {"user"}, "2/min"), MakeLimit("per-ip", {"ip"}, "1/min")});
  const Decision first = answers_[Check(Ask(kUser42))];
  EXPECT_TRUE(first.allowed);
  ASSERT_EQ(first.limits.size(), 1u);
  EXPECT_EQ(first.limits[0].name, "per-user");
  EXPECT_EQ(first.limits[0].unit, "requests");
  EXPECT_EQ(first.limit, 2);
  EXPECT_EQ(first.remaining, 1);
  EXPECT_EQ(first.retry_after, std::chrono::microseconds(0));
  EXPECT_EQ(first.limits[0].window, std::chrono::seconds(60));
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
  const Decision third = answers_[Check(Ask(kUser42))];
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.outcome, Outcome::kDenied);
  EXPECT_EQ(third.retry_after, std::chrono::seconds(30));
}

TEST_F(DeciderTest, SeveralSubmitsBeforeAFlushAreOneBatch) {
  Publish({MakeLimit("per-user", {"user"}, "100/min")});
  for (int i = 0; i < 64; ++i) Submit(Ask(kUser42));
  EXPECT_EQ(answers_.size(), 0u);
  decider().Flush();
  EXPECT_EQ(session_.batches, std::vector<size_t>{64});
  EXPECT_EQ(answers_.size(), 64u);
  EXPECT_EQ(answers_[64].remaining, 36);
}

TEST_F(DeciderTest, MoreThanABatchHoldsAreDecidedInSeveral) {
  Publish({MakeLimit("per-user", {"user"}, "1_000_000/min")});
  for (int i = 0; i < 2'500; ++i) Submit(Ask(kUser42));
  decider().Flush();
  EXPECT_EQ(session_.batches, (std::vector<size_t>{1'024, 1'024, 452}));
  EXPECT_EQ(answers_.size(), 2'500u);
}

TEST_F(DeciderTest, RequestsAreCopiedUnlessStable) {
  Publish({MakeLimit("per-user", {"user"}, "1/min")});
  {
    const std::string user = "a user name that stands on the heap";
    const std::vector<Attribute> attributes = {{"user", user}};
    Submit(Ask(attributes));
    Submit(Ask(attributes));
  }
  decider().Flush();
  EXPECT_TRUE(answers_[1].allowed);
  EXPECT_FALSE(answers_[2].allowed);

  Decision into;
  Request request = Ask(kUser42);
  request.stable = true;
  request.into = &into;
  Check(request);
  EXPECT_TRUE(into.allowed);
  EXPECT_EQ(into.remaining, 0);
}

TEST_F(DeciderTest, NothingMatchedIsAllowedWithoutNumbers) {
  Publish({MakeLimit("per-user", {"user"}, "1/min")});
  const Decision decision = answers_[Check(Ask({}))];
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.outcome, Outcome::kAllowed);
  EXPECT_TRUE(decision.limits.empty());
  EXPECT_FALSE(decision.limit.has_value());
  EXPECT_FALSE(decision.remaining.has_value());
  EXPECT_TRUE(session_.batches.empty());
  EXPECT_EQ(metrics_.Totals().unmatched, 1u);
}

TEST_F(DeciderTest, AnUnknownDomainIsAnErrorThatNamesIt) {
  Request request = Ask(kUser42);
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kNotFound);
  Publish({MakeLimit("per-user", {"user"}, "1/min")});
  request.domain = "apo";
  const Error& error = answers_.error(Check(request));
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_EQ(error.message, "unknown domain \"apo\"");
  EXPECT_TRUE(answers_[Check(Ask(kUser42))].allowed);
}

TEST_F(DeciderTest, ALimitWhoseUnitIsNotNamedDoesNotApply) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});

  EXPECT_EQ(answers_[Check(Ask(kUser42))].limits.size(), 1u);
  const UnitCost only_tokens[] = {{"tokens", 600}};
  Request request = Ask(kUser42);
  request.options.costs = only_tokens;
  const Decision charged = answers_[Check(request)];
  ASSERT_EQ(charged.limits.size(), 1u);
  EXPECT_EQ(charged.limits[0].unit, "tokens");
  EXPECT_EQ(charged.remaining, 400);

  const UnitCost peek_tokens[] = {{"requests", 1}, {"tokens", 0}};
  request.options.costs = peek_tokens;
  const Decision peeked = answers_[Check(request)];
  ASSERT_EQ(peeked.limits.size(), 2u);
  EXPECT_EQ(peeked.limits[0].remaining, 8);
  EXPECT_EQ(peeked.limits[1].remaining, 400);

  const UnitCost unknown[] = {{"bytes", 1}};
  request.options.costs = unknown;
  EXPECT_TRUE(answers_[Check(request)].limits.empty());
}

// Case C28 without permits: a refusal by one unit's limit leaves the other's untouched.
TEST_F(DeciderTest, CostsByUnitAreChargedTogetherOrNotAtAll) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});
  const UnitCost costs[] = {{"requests", 1}, {"tokens", 500}};
  Request request = Ask(kUser42);
  request.options.costs = costs;
  Check(request);
  const Decision second = answers_[Check(request)];
  EXPECT_EQ(second.limits[0].remaining, 8);
  EXPECT_EQ(second.limits[1].remaining, 0);
  const Decision third = answers_[Check(request)];
  EXPECT_FALSE(third.allowed);
  EXPECT_EQ(third.limits[0].remaining, 8);
  EXPECT_EQ(third.limits[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(third.limits[1].outcome, Outcome::kDenied);
}

TEST_F(DeciderTest, PartialSaysWhatWasTakenAUnit) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});
  const UnitCost costs[] = {{"requests", 1}, {"tokens", 1'500}};
  Request request = Ask(kUser42);
  request.options.costs = costs;
  request.options.partial = true;
  const Decision first = answers_[Check(request)];
  EXPECT_TRUE(first.allowed);
  ASSERT_EQ(first.taken.size(), 2u);
  EXPECT_EQ(first.taken[0].taken, 1);
  EXPECT_EQ(first.taken[1].taken, 1'000);
  // Case C11: nothing is there, nothing is taken, in no unit.
  const Decision second = answers_[Check(request)];
  EXPECT_EQ(second.outcome, Outcome::kDenied);
  ASSERT_EQ(second.taken.size(), 2u);
  EXPECT_EQ(second.taken[0].taken, 0);
  EXPECT_EQ(second.taken[1].taken, 0);
  EXPECT_EQ(second.limits[0].remaining, 9);
}

// Case C34.
TEST_F(DeciderTest, AnExhaustedShadowLimitOnlyCounts) {
  policy::LimitDefinition shadow = MakeLimit("shadow", {"user"}, "1/min");
  shadow.shadow = true;
  Publish({shadow, MakeLimit("enforced", {"user"}, "3/min")});
  for (int i = 0; i < 3; ++i) {
    const Decision decision = answers_[Check(Ask(kUser42))];
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.limit, 3);
    EXPECT_EQ(decision.remaining, 2 - i);
    EXPECT_EQ(decision.retry_after, std::chrono::microseconds(0));
  }
  EXPECT_FALSE(answers_[Check(Ask(kUser42))].allowed);
  const LimitCounts counts = Counts("shadow");
  EXPECT_EQ(counts.shadow[static_cast<size_t>(Outcome::kAllowed)], 1u);
  EXPECT_EQ(counts.shadow[static_cast<size_t>(Outcome::kDenied)], 3u);
  EXPECT_EQ(counts.outcomes[static_cast<size_t>(Outcome::kDenied)], 0u);
  const LimitCounts enforced = Counts("enforced");
  EXPECT_EQ(enforced.outcomes[static_cast<size_t>(Outcome::kAllowed)], 3u);
  EXPECT_EQ(enforced.outcomes[static_cast<size_t>(Outcome::kDenied)], 1u);
}

TEST_F(DeciderTest, LooksShowEveryUnitAndChangeNothing) {
  policy::LimitDefinition tokens = MakeLimit("tpm", {"user"}, "1000/min");
  tokens.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tokens});
  Check(Ask(kUser42, 4));
  Request look = Ask(kUser42);
  look.look = true;
  for (int i = 0; i < 2; ++i) {
    const Decision seen = answers_[Check(look)];
    ASSERT_EQ(seen.limits.size(), 2u);
    EXPECT_EQ(seen.limits[0].remaining, 6);
    EXPECT_EQ(seen.limits[1].remaining, 1'000);
  }
  look.only_limit = "tpm";
  EXPECT_EQ(answers_[Check(look)].limits.size(), 1u);
  look.only_limit = "tpx";
  EXPECT_EQ(answers_.error(Check(look)).kind, ErrorKind::kNotFound);
  EXPECT_EQ(metrics_.Totals().requests, 1u);
}

TEST_F(DeciderTest, ResetGoesToTheEngineAsSuchWithoutACost) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakeLimit("day", {"user"}, "100/d")});
  Request reset = Ask(kUser42);
  reset.mode = engine::Mode::kReset;
  reset.only_limit = "day";
  Check(reset);
  ASSERT_EQ(session_.seen.size(), 1u);
  EXPECT_EQ(session_.seen[0].mode, engine::Mode::kReset);
  EXPECT_EQ(session_.seen[0].count, 1u);
}

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

// --- ad hoc ---------------------------------------------------------------------------------------------------

TEST_F(DeciderTest, AnAdHocLimitNeedsNoPolicyAndCarriesUseOverAChange) {
  Request request;
  request.ad_hoc_key = "user:42";
  request.ad_hoc = Spec("200/min");
  EXPECT_EQ(answers_[Check(request)].remaining, 199);
  request.ad_hoc = Spec("2/min");  // case C25: one bucket, use carried
  const Decision second = answers_[Check(request)];
  EXPECT_TRUE(second.allowed);
  EXPECT_EQ(second.remaining, 0);
  EXPECT_EQ(second.limits[0].name, kAdHocName);
  EXPECT_FALSE(answers_[Check(request)].allowed);
  request.ad_hoc_key = "user:43";
  EXPECT_EQ(answers_[Check(request)].remaining, 1);
  // Another algorithm is another bucket.
  request.ad_hoc_key = "user:42";
  request.ad_hoc->algorithm = core::Algorithm::kSlidingWindow;
  EXPECT_EQ(answers_[Check(request)].remaining, 1);
  EXPECT_EQ(metrics_.Totals().ad_hoc_compiled, 3u);
  EXPECT_EQ(Counts(kAdHocName).outcomes[static_cast<size_t>(Outcome::kAllowed)], 4u);
}

TEST_F(DeciderTest, AnAdHocLimitThatCannotBeIsAnError) {
  Request request;
  request.ad_hoc_key = "k";
  request.ad_hoc = Spec("1/min");
  request.ad_hoc->count = 0;
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kInvalid);
  engine_.refuse_log = true;
  request.ad_hoc = Spec("1/min");
  request.ad_hoc->algorithm = core::Algorithm::kSlidingLog;
  EXPECT_EQ(answers_.error(Check(request)).message, "no logs here");
  const std::string long_key(kMaxKeyBytes + 1, 'x');
  request.ad_hoc = Spec("1/min");
  request.ad_hoc_key = long_key;
  EXPECT_EQ(answers_.error(Check(request)).kind, ErrorKind::kTooLarge);
}

TEST_F(DeciderTest, TheAdHocCacheIsBoundedAndKeepsWhatIsUnderWay) {
  session_.later = true;
  Request request;
  request.ad_hoc_key = "k";
  request.ad_hoc = Spec("7/min");
  Check(request);
  for (int64_t count = 100; count < 100 + 2 * static_cast<int64_t>(AdHocCache::kEntries); ++count) {
    request.ad_hoc->count = count;
    Submit(request);
  }
  decider().Flush();
  session_.AnswerAll();
  EXPECT_EQ(answers_[1].limit, 7);
  EXPECT_EQ(answers_.size(), 1 + 2 * AdHocCache::kEntries);
}

TEST(AdHocCache, FindsWhatWasUsedLatelyAndForgetsTheOldest) {
  FakeEngine engine;
  FakeSession session;
  AdHocCache cache(engine, session);
  for (int64_t count = 1; count <= static_cast<int64_t>(AdHocCache::kEntries); ++count) {
    core::RateSpec spec = Spec("1/min");
    spec.count = count;
    ASSERT_TRUE(cache.Find(spec).has_value());
  }
  core::RateSpec first = Spec("1/min");
  core::RateSpec second = Spec("2/min");
  core::RateSpec fresh = Spec("99999/min");
  const auto* const entry = *cache.Find(first);
  EXPECT_EQ(cache.compiled(), AdHocCache::kEntries);
  ASSERT_TRUE(cache.Find(fresh).has_value());  // drops `second`, the oldest now
  EXPECT_EQ(cache.size(), AdHocCache::kEntries);
  EXPECT_EQ(*cache.Find(first), entry);
  EXPECT_EQ(cache.compiled(), AdHocCache::kEntries + 1);
  ASSERT_TRUE(cache.Find(second).has_value());
  EXPECT_EQ(cache.compiled(), AdHocCache::kEntries + 2);
}

}  // namespace
}  // namespace penstock::service
