#include "held_permit.h"

#include <gtest/gtest.h>

namespace penstock::app {
namespace {

using core::PermitFate;
using Loss = HeldPermit::Loss;

constexpr SteadyTime At(int64_t ms) { return SteadyTime{} + Millis(ms); }

TEST(HeldPermit, ItsDeadlineCountsFromBeforeTheQuestionAndFromTheEndOfTheWait) {
  EXPECT_EQ(HeldPermit(At(1'000), {}, Seconds(30)).deadline(), At(1'000 + 30'000 - 1'500));
  EXPECT_EQ(HeldPermit(At(1'000), Millis(700), Seconds(30)).deadline(), At(1'700 + 30'000 - 1'500));
  EXPECT_EQ(HeldPermit(At(1'000), {}, Millis(500)).deadline(), At(1'450)) << "50 ms at least";
}

TEST(HeldPermit, IsRenewedAtAThirdOfItsLease) {
  HeldPermit permit(At(0), {}, Seconds(30));
  EXPECT_EQ(permit.renew_at(), At(10'000));
  permit.Answered(PermitFate::kRenewed, Seconds(30), At(10'000), At(10'005));
  EXPECT_EQ(permit.renew_at(), At(20'000));
  EXPECT_EQ(permit.deadline(), At(38'500));
  EXPECT_TRUE(permit.StillHeld(At(38'499)));
}

TEST(HeldPermit, ARenewalThatWasAskedForInTimeAndAnsweredTooLateDoesNotBringItBack) {
  HeldPermit permit(At(0), {}, Seconds(1));
  permit.Answered(PermitFate::kRenewed, Seconds(1), At(900), At(950));
  EXPECT_FALSE(permit.held());
  EXPECT_EQ(permit.loss(), Loss::kSilence);
  permit.Answered(PermitFate::kRenewed, Seconds(1), At(960), At(961));
  EXPECT_FALSE(permit.held());
}

TEST(HeldPermit, AShorterLeaseDoesNotTakeBackWhatWasPromised) {
  HeldPermit permit(At(0), {}, Seconds(30));
  permit.Answered(PermitFate::kRenewed, Seconds(1), At(10'000), At(10'001));
  EXPECT_EQ(permit.deadline(), At(28'500));
  EXPECT_EQ(permit.renew_at(), At(10'333) + Micros{333});
}

TEST(HeldPermit, IsAskedForAgainWhileNobodyAnswersAndLostAtTheDeadline) {
  HeldPermit permit(At(0), {}, Seconds(2));
  SteadyTime now = permit.renew_at();
  int tries = 0;
  while (permit.StillHeld(now)) {
    permit.Answered(PermitFate::kUnavailable, {}, now, now);
    ASSERT_GT(permit.renew_at(), now);
    ASSERT_LE(permit.renew_at(), now + Millis(100));
    now = permit.renew_at();
    ++tries;
  }
  EXPECT_GT(tries, 10);
  EXPECT_GE(now, At(1'900));
  EXPECT_EQ(permit.loss(), Loss::kSilence);
}

TEST(HeldPermit, TheServersWordIsFinal) {
  HeldPermit expired(At(0), {}, Seconds(30));
  expired.Answered(PermitFate::kExpired, {}, At(10'000), At(10'001));
  EXPECT_EQ(expired.loss(), Loss::kExpired);
  expired.Answered(PermitFate::kRenewed, Seconds(30), At(10'002), At(10'003));
  EXPECT_FALSE(expired.StillHeld(At(10'004)));
  HeldPermit unknown(At(0), {}, Seconds(30));
  unknown.Answered(PermitFate::kUnknown, {}, At(10'000), At(10'001));
  EXPECT_EQ(unknown.loss(), Loss::kUnknown);
}

}  // namespace
}  // namespace penstock::app
