// Permits through the decider: what is granted, told, given back and looked at. Waiting has a test of its own.
#include <limits>
#include <string>
#include <utility>

#include "engine/permit_id.h"
#include "service/decider_fixture.h"
#include "service/holder_desk.h"

namespace penstock::service {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class PermitAnswers final : public PermitReceiver {
 public:
  void PermitAnswered(uint64_t token, const PermitAnswer& answer) noexcept override {
    EXPECT_FALSE(answers_.contains(token)) << "answered twice: " << token;
    answers_[token] = answer;
  }
  bool has(uint64_t token) const { return answers_.contains(token); }
  PermitAnswer operator[](uint64_t token) {
    EXPECT_TRUE(has(token)) << "not answered: " << token;
    return answers_[token];
  }

 private:
  std::map<uint64_t, PermitAnswer> answers_;
};

class Lists final : public HolderReceiver {
 public:
  void HoldersListed(uint64_t, const Result<const Holders*>& holders) noexcept override {
    ++heard;
    error.reset();
    if (!holders) {
      error = holders.error();
      return;
    }
    last = **holders;
    names.clear();
    for (const HolderInfo& entry : last.entries) names.emplace_back(entry.holder);
  }

  int heard = 0;
  Holders last;  // without the names, which are gone
  std::vector<std::string> names;
  std::optional<Error> error;
};

class PermitsTest : public DeciderTest {
 protected:
  core::PermitFate Release(std::string_view id) {
    const uint64_t token = next_token_++;
    decider().permits().Release(id, permit_answers_, token);
    decider().permits().Flush();
    return permit_answers_[token].fate;
  }
  PermitAnswer Renew(std::string_view id, milliseconds lease) {
    const uint64_t token = next_token_++;
    decider().permits().Renew(id, lease, permit_answers_, token);
    decider().permits().Flush();
    return permit_answers_[token];
  }
  std::string Acquire(const Request& request) {
    const Decision& decision = answers_[Check(request)];
    EXPECT_TRUE(decision.permit.has_value());
    return decision.permit ? std::string(decision.permit->id.view()) : std::string();
  }

  PermitAnswers permit_answers_;
};

const std::vector<Attribute> kBoth = {{"team", "a"}, {"user", "42"}};

TEST_F(PermitsTest, AGrantTellsItsIdFenceAndLeaseAndIsGivenBackByItsId) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  const Decision decision = answers_[Check(Ask(kUser42))];
  ASSERT_TRUE(decision.permit.has_value());
  EXPECT_EQ(decision.permit->expires_in, seconds(30));
  EXPECT_EQ(decision.permit->waited, microseconds(0));
  EXPECT_EQ(decision.permit->fence, decision.limits[0].fence);
  EXPECT_GT(decision.limits[0].fence, 0);
  EXPECT_EQ(decision.limits[0].expires_in, seconds(30));
  EXPECT_EQ(decision.remaining, 1);
  EXPECT_EQ(session_.in_use(), 1);
  const auto id = engine::ParsePermitId(decision.permit->id.view());
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->weight, 1u);
  EXPECT_EQ(id->size, 1);
  EXPECT_EQ(Release(decision.permit->id.view()), core::PermitFate::kReleased);
  EXPECT_EQ(session_.in_use(), 0);
  EXPECT_EQ(metrics_.Totals().permits_granted, 1u);
  EXPECT_EQ(metrics_.Totals().permits_released, 1u);
}

TEST_F(PermitsTest, C61ReleasedTwiceByAStrangerOrTooLateChangesNothing) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  const std::string one = Acquire(Ask(kUser42));
  const std::string two = Acquire(Ask(kUser42));
  EXPECT_EQ(Release(one), core::PermitFate::kReleased);
  EXPECT_EQ(Release(one), core::PermitFate::kUnknown);
  EXPECT_EQ(Release("no permit of ours"), core::PermitFate::kUnknown);
  EXPECT_EQ(Release(""), core::PermitFate::kUnknown);
  EXPECT_EQ(session_.in_use(), 1);
  session_.now = session_.now + Seconds(31);
  EXPECT_EQ(Release(two), core::PermitFate::kExpired);
  EXPECT_EQ(Renew(two, milliseconds(1'000)).fate, core::PermitFate::kExpired) << "C63";
  EXPECT_EQ(session_.in_use(), 0);
  EXPECT_EQ(metrics_.Totals().permits_expired, 2u);
  EXPECT_EQ(metrics_.Totals().permits_unknown, 3u);
}

TEST_F(PermitsTest, C64AnAskersOwnShorterLeaseIsHisAlone) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  Request request = Ask(kUser42);
  request.options.lease = milliseconds(500);
  const Decision shorter = answers_[Check(request)];
  request.options.lease = milliseconds(60'000);
  const Decision longest = answers_[Check(request)];
  EXPECT_EQ(shorter.permit->expires_in, milliseconds(500));
  EXPECT_EQ(longest.permit->expires_in, seconds(30)) << "never longer than the limit's";
  session_.now = session_.now + Millis(500);
  EXPECT_EQ(session_.in_use(), 1);
  EXPECT_EQ(Renew(longest.permit->id.view(), milliseconds(10'000)).expires_in, seconds(10));
}

TEST_F(PermitsTest, C28RatesAndPermitsAreDecidedTogetherAndARefusalLeavesAll) {
  policy::LimitDefinition tpm = MakeLimit("tpm", {"user"}, "1000/min");
  tpm.unit = "tokens";
  Publish({MakeLimit("rpm", {"user"}, "10/min"), tpm, MakePermits("in-flight", {"user"}, 1)});
  const UnitCost costs[] = {{"requests", 1}, {"tokens", 500}};
  Request request = Ask(kUser42);
  request.options.costs = costs;
  const Decision first = answers_[Check(request)];
  ASSERT_EQ(first.limits.size(), 3u);
  EXPECT_EQ(first.limits[0].taken, 1);
  EXPECT_EQ(first.limits[1].taken, 500);
  EXPECT_EQ(first.limits[2].taken, 1);
  EXPECT_EQ(first.limits[0].fence, 0);
  const Decision second = answers_[Check(request)];
  EXPECT_EQ(second.outcome, Outcome::kDenied);
  EXPECT_FALSE(second.permit.has_value());
  EXPECT_EQ(second.retry_after, seconds(30)) << "by expiry alone";
  EXPECT_EQ(second.limits[0].remaining, 9) << "C69: the rate is not spent";
  EXPECT_EQ(second.limits[1].remaining, 500);
  Release(first.permit->id.view());
  EXPECT_TRUE(answers_[Check(request)].allowed);
}

TEST_F(PermitsTest, OnePermitCoversAllPermitLimitsOfTheRequest) {
  Publish({MakePermits("team", {"team"}, 5, Seconds(60)), MakePermits("user", {"user"}, 2, Seconds(10))});
  const Decision decision = answers_[Check(Ask(kBoth))];
  ASSERT_TRUE(decision.permit.has_value());
  EXPECT_EQ(decision.permit->expires_in, seconds(10)) << "the earliest";
  EXPECT_FALSE(decision.permit->fence.has_value()) << "each limit has its own";
  EXPECT_GT(decision.limits[0].fence, 0);
  EXPECT_GT(decision.limits[1].fence, 0);
  EXPECT_EQ(session_.in_use(), 2);
  EXPECT_EQ(Release(decision.permit->id.view()), core::PermitFate::kReleased);
  EXPECT_EQ(session_.in_use(), 0);
}

TEST_F(PermitsTest, AShadowLimitHoldsUnderThePermitAndHasNoPartInItsFence) {
  policy::LimitDefinition shadow = MakePermits("team", {"team"}, 5);
  shadow.shadow = true;
  Publish({shadow, MakePermits("user", {"user"}, 2)});
  const Decision decision = answers_[Check(Ask(kBoth))];
  EXPECT_EQ(decision.permit->fence, decision.limits[1].fence);
  EXPECT_EQ(session_.in_use(), 2);
  Release(decision.permit->id.view());
  EXPECT_EQ(session_.in_use(), 0);
}

TEST_F(PermitsTest, MoreThanEightPermitLimitsAreTooMany) {
  std::vector<policy::LimitDefinition> limits;
  for (int i = 0; i < 9; ++i) limits.push_back(MakePermits("p" + std::to_string(i), {"user"}, 2));
  Publish(limits);
  EXPECT_EQ(answers_.error(Check(Ask(kUser42))).kind, ErrorKind::kTooLarge);
  EXPECT_TRUE(session_.seen.empty());
  EXPECT_EQ(answers_[Check(Ask(kUser42, 0))].limits.size(), 9u) << "a peek holds nothing";
  limits.pop_back();
  Publish(limits);
  EXPECT_EQ(engine::ParsePermitId(Acquire(Ask(kUser42)))->size, 8);
}

TEST_F(PermitsTest, C71PeeksForceAndRefundsDoNotTouchPermits) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakePermits("in-flight", {"user"}, 1)});
  EXPECT_FALSE(answers_[Check(Ask(kUser42, 0))].permit.has_value());
  EXPECT_EQ(session_.in_use(), 0);
  Acquire(Ask(kUser42));
  Request forced = Ask(kUser42, 20);
  forced.options.force = true;
  EXPECT_TRUE(answers_[Check(forced)].allowed);
  EXPECT_TRUE(answers_[Check(Ask(kUser42, -20))].allowed);
  Request partial = Ask(kUser42, 20);
  partial.options.partial = true;
  EXPECT_EQ(answers_[Check(partial)].outcome, Outcome::kDenied) << "it takes its permit whole or not at all";
  EXPECT_EQ(session_.in_use(), 1);
}

TEST_F(PermitsTest, C70AWeightAboveTheCapacityIsNever) {
  Publish({MakePermits("in-flight", {"user"}, 3)});
  Request request = Ask(kUser42);
  request.options.weight = 4;
  EXPECT_EQ(answers_[Check(request)].outcome, Outcome::kNever);
  request.options.weight = 3;
  EXPECT_EQ(engine::ParsePermitId(Acquire(request))->weight, 3u);
  EXPECT_EQ(session_.in_use(), 3);
}

TEST_F(PermitsTest, WhoCannotGiveBackIsNotAskedToHold) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakePermits("in-flight", {"user"}, 1)});
  Request request = Ask(kUser42);
  request.without_permits = true;
  for (int i = 0; i < 3; ++i) {
    const Decision decision = answers_[Check(request)];
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.limits.size(), 1u);
  }
}

TEST_F(PermitsTest, TheShortWayGrantsAsWell) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  Decision decision;
  ASSERT_FALSE(decider().DecideNow(Ask(kUser42), decision));
  ASSERT_TRUE(decision.permit.has_value());
  Request waiting = Ask(kUser42);
  waiting.options.max_wait = milliseconds(1'000);
  Decision refused;
  ASSERT_FALSE(decider().DecideNow(waiting, refused));
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_FALSE(refused.permit.has_value());
  EXPECT_EQ(session_.queued(), 0u) << "nobody would hear of it";
  EXPECT_EQ(Release(decision.permit->id.view()), core::PermitFate::kReleased);
}

TEST_F(PermitsTest, ASemaphoreOfTheCallersOwnNeedsNoPolicy) {
  Request request;
  request.ad_hoc_key = "sema:api";
  request.ad_hoc = core::RateSpec{.algorithm = core::Algorithm::kPermits, .count = 1, .period = Seconds(5)};
  const std::string id = Acquire(request);
  EXPECT_EQ(answers_[Check(request)].outcome, Outcome::kDenied);
  EXPECT_EQ(Release(id), core::PermitFate::kReleased);
  request.options.holder = "nightly export";
  Acquire(request);

  Lists lists;
  Request who;
  who.ad_hoc_key = "sema:api";
  decider().holders().List(who, {}, lists, 1);
  EXPECT_EQ(lists.names, std::vector<std::string>{"nightly export"});
  EXPECT_EQ(lists.last.in_use, 1);
  EXPECT_EQ(lists.last.permits, 0) << "its callers say it";
}

TEST_F(PermitsTest, AReplayTellsWhatIsLeftOfTheFirstAnswersLease) {
  Publish({MakePermits("in-flight", {"user"}, 1)});
  session_.later = true;
  Request request = Ask(kUser42);
  request.options.request_id = "r-1";
  const uint64_t token = Check(request);
  session_.replay_after = Seconds(10);
  session_.Answer(0);
  const Decision& decision = answers_[token];
  EXPECT_TRUE(decision.replayed);
  ASSERT_TRUE(decision.permit.has_value());
  EXPECT_EQ(decision.permit->expires_in, seconds(20));
  EXPECT_EQ(metrics_.Totals().permits_granted, 0u) << "counted when it was first told";
}

TEST_F(PermitsTest, C67AGrantThatNobodyHearsOfIsGivenBack) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  session_.later = true;
  Check(Ask(kUser42));
  decider().Detach(answers_);
  session_.AnswerAll();
  EXPECT_EQ(session_.in_use(), 1);
  executor_.RunAll();
  EXPECT_EQ(session_.in_use(), 0);
  EXPECT_EQ(metrics_.Totals().permits_handed_back, 1u);

  const uint64_t gone = Check(Ask(kUser42));
  const uint64_t stays = Check(Ask(kUser42));
  decider().Cancel(answers_, gone);
  session_.AnswerAll();
  executor_.RunAll();
  EXPECT_FALSE(answers_.has(gone));
  EXPECT_TRUE(answers_[stays].permit.has_value());
  EXPECT_EQ(session_.in_use(), 1);

  Request named = Ask(kUser42);
  named.options.request_id = "r-1";
  decider().Cancel(answers_, Check(named));
  session_.AnswerAll();
  executor_.RunAll();
  EXPECT_EQ(session_.in_use(), 2) << "it can be asked for again";
}

TEST_F(PermitsTest, C67AGrantThatNobodyHearsOfIsGivenBackWhereItsIdWasNotKept) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  session_.later = true;
  session_.keeps_ids = false;
  Request named = Ask(kUser42);
  named.options.request_id = "r-1";
  decider().Cancel(answers_, Check(named));
  session_.AnswerAll();
  EXPECT_EQ(session_.in_use(), 1);
  executor_.RunAll();
  EXPECT_EQ(session_.in_use(), 0);
}

TEST_F(PermitsTest, HoldersAreListedByTheirLimitAndName) {
  Publish({MakeLimit("rpm", {"user"}, "10/min"), MakePermits("in-flight", {"user"}, 3)});
  Request request = Ask(kUser42);
  request.options.holder = "a";
  const std::string a = Acquire(request);
  request.options.holder = "b";
  request.options.weight = 2;
  Acquire(request);
  Lists lists;
  Request who = Ask(kUser42);
  who.only_limit = "in-flight";
  decider().holders().List(who, {}, lists, 1);
  EXPECT_EQ(lists.heard, 1);
  EXPECT_EQ(lists.last.permits, 3);
  EXPECT_EQ(lists.last.in_use, 3);
  EXPECT_EQ(lists.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(lists.last.entries[0].id.view(), a) << "enough to give it back";
  EXPECT_EQ(lists.last.entries[1].weight, 2);
  decider().holders().List(who, "b", lists, 2);
  EXPECT_EQ(lists.names, std::vector<std::string>{"b"});
  who.only_limit = "rpm";
  decider().holders().List(who, {}, lists, 3);
  EXPECT_EQ(lists.error->kind, ErrorKind::kInvalid);
  who.only_limit = "nobody";
  decider().holders().List(who, {}, lists, 4);
  EXPECT_EQ(lists.error->kind, ErrorKind::kNotFound);
  who.only_limit = {};
  decider().holders().List(who, {}, lists, 5);
  EXPECT_EQ(lists.error->kind, ErrorKind::kInvalid);
  EXPECT_EQ(session_.in_use(), 3);
}

TEST_F(PermitsTest, AListThatCannotBeAskedForSaysWhyAndADetachedOneNothing) {
  Publish({MakePermits("in-flight", {"user"}, 3)});
  Lists lists;
  Request who = Ask(kUser42);
  who.only_limit = "in-flight";
  session_.script = {{.state = engine::GroupState::kUnavailable, .reason = Reason::kTimeout, .now = {}}};
  decider().holders().List(who, {}, lists, 1);
  EXPECT_EQ(lists.last.unavailable, Reason::kTimeout);
  session_.later = true;
  decider().holders().List(who, {}, lists, 2);
  decider().holders().Detach(lists);
  session_.AnswerAll();
  EXPECT_EQ(lists.heard, 1);
}

// --- the desk -------------------------------------------------------------------------------------------------------

class DeskTest : public PermitsTest {
 protected:
  DeskTest() {
    options_.timer = &timer_;
    options_.timeout = Millis(20);
  }
  ~DeskTest() override { decider_.reset(); }  // it uses the timer
  void FireTimer(Micros after) {
    clock_.Advance(after);
    timer_.FireAll();
    executor_.RunAll();
  }

  ManualTimer timer_;
};

TEST_F(DeskTest, CallsOfOneTurnGoToTheEngineTogether) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  const std::string one = Acquire(Ask(kUser42));
  const std::string two = Acquire(Ask(kUser42));
  session_.calls_later = true;
  decider().permits().Release(one, permit_answers_, 101);
  decider().permits().Renew(two, milliseconds(0), permit_answers_, 102);
  EXPECT_TRUE(session_.calls.empty());
  decider().permits().Flush();
  EXPECT_EQ(session_.calls.size(), 2u);
  EXPECT_FALSE(permit_answers_.has(101));
  session_.AnswerCalls();
  EXPECT_EQ(permit_answers_[101].fate, core::PermitFate::kReleased);
  EXPECT_EQ(permit_answers_[102].fate, core::PermitFate::kRenewed);
}

TEST_F(DeskTest, AReleaseGoesOnBeingTriedWhileTheEngineIsAwayAndARenewalDoesNot) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  const std::string one = Acquire(Ask(kUser42));
  const std::string two = Acquire(Ask(kUser42));
  session_.away = true;
  EXPECT_EQ(Renew(two, milliseconds(0)).fate, core::PermitFate::kUnavailable);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(Release(one), core::PermitFate::kUnavailable);
  ASSERT_EQ(timer_.size(), 1u);
  FireTimer(PermitDeskImpl::kFirstPause);
  FireTimer(PermitDeskImpl::kFirstPause * 2);
  ASSERT_EQ(timer_.size(), 1u);
  EXPECT_EQ(session_.in_use(), 2);
  session_.away = false;
  FireTimer(PermitDeskImpl::kLongestPause);
  EXPECT_EQ(session_.in_use(), 1);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(metrics_.Totals().releases_repeated, 3u);
  EXPECT_EQ(metrics_.Totals().releases_lost, 0u);
}

TEST_F(DeskTest, AReleaseIsGivenUpWhenNoLeaseCanBeLeft) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  const std::string one = Acquire(Ask(kUser42));
  session_.away = true;
  Release(one);
  FireTimer(core::kMaxLease);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(metrics_.Totals().releases_lost, 1u);
}

TEST_F(DeskTest, KeptReleasesAreBoundedAndGoInPartsUntilTheEngineAnswers) {
  Publish({MakePermits("in-flight", {"user"}, std::numeric_limits<int32_t>::max())});
  const engine::PermitId permit = *engine::ParsePermitId(Acquire(Ask(kUser42)));
  session_.away = true;
  constexpr size_t kAll = PermitDeskImpl::kMaxKept + 10;
  decider();
  for (size_t i = 0; i < kAll; ++i) {
    engine::PermitId other = permit;
    other.id.low += i + 1;
    decider_->permits().Release(engine::ToText(other).view(), permit_answers_, 1'000 + i);
  }
  decider_->permits().Flush();
  EXPECT_EQ(metrics_.Totals().releases_lost, 10u);
  session_.calls.clear();
  FireTimer(PermitDeskImpl::kFirstPause);
  EXPECT_EQ(session_.calls.size(), PermitDeskImpl::kMaxRepeated);
  session_.away = false;
  for (int rounds = 0; timer_.size() > 0; ++rounds) {
    ASSERT_LE(rounds, 100);
    FireTimer(PermitDeskImpl::kLongestPause);
  }
  EXPECT_EQ(session_.calls.size(), PermitDeskImpl::kMaxRepeated + PermitDeskImpl::kMaxKept);
}

TEST_F(DeskTest, ADetachedReceiverHearsNothingAndTheReleaseIsDone) {
  Publish({MakePermits("in-flight", {"user"}, 2)});
  const std::string one = Acquire(Ask(kUser42));
  session_.calls_later = true;
  decider().permits().Release(one, permit_answers_, 101);
  decider().permits().Flush();
  decider().permits().Detach(permit_answers_);
  session_.AnswerCalls();
  EXPECT_FALSE(permit_answers_.has(101));
  EXPECT_EQ(session_.in_use(), 0);
}

}  // namespace
}  // namespace penstock::service
