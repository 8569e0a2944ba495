// Limits that a caller brings along.
#include "service/decider_fixture.h"
#include "service/names.h"

namespace penstock::service {
namespace {

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

TEST(AdHocCache, DoesNotKeepWhatFoundNoPlaceInTheEngine) {
  FakeEngine engine;
  FakeSession session;
  AdHocCache cache(engine, session);
  session.no_place = true;
  AdHocCache::Entry* const under_way = *cache.Find(Spec("1/min"));
  cache.Use(*under_way);
  EXPECT_EQ(cache.Newest(Spec("1/min")), nullptr);
  EXPECT_NE(*cache.Find(Spec("1/min")), under_way);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.compiled(), 2u);
  session.no_place = false;
  AdHocCache::Entry* const bound = *cache.Find(Spec("1/min"));
  EXPECT_EQ(cache.compiled(), 3u);
  EXPECT_EQ(*cache.Find(Spec("1/min")), bound);
  EXPECT_EQ(cache.compiled(), 3u);
  EXPECT_EQ(under_way->limit.params, bound->limit.params);  // still there
  cache.Unuse(*under_way);
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
