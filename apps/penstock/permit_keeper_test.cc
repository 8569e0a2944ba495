#include "permit_keeper.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

namespace penstock::app {
namespace {

using core::PermitFate;

bool Readable(int fd, int timeout_ms) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, timeout_ms) > 0;
}

constexpr int kPatienceMs = 60'000;

TEST(PermitKeeper, RenewsUntilTheServerSaysThatItIsLost) {
  std::atomic<int> asked = 0;
  PermitKeeper keeper(HeldPermit(BootTime(), {}, Seconds(1)), [&](int, int) -> Result<PermitFateAnswer> {
    if (++asked < 3) return PermitFateAnswer{PermitFate::kRenewed, 1'000};
    return PermitFateAnswer{PermitFate::kExpired, 0};
  });
  ASSERT_TRUE(Readable(keeper.loss_fd(), kPatienceMs));
  EXPECT_NE(keeper.permit().loss(), HeldPermit::Loss::kNone);
  EXPECT_LE(asked, 3) << "nobody asks for a permit that is lost";
}

TEST(PermitKeeper, TellsOfTheLossWhereNobodyAnswers) {
  std::atomic<int> asked = 0;
  PermitKeeper keeper(HeldPermit(BootTime(), {}, Millis(300)), [&](int, int) -> Result<PermitFateAnswer> {
    ++asked;
    return Fail(ErrorKind::kUnavailable, "no way");
  });
  ASSERT_TRUE(Readable(keeper.loss_fd(), kPatienceMs));
  EXPECT_EQ(keeper.permit().loss(), HeldPermit::Loss::kSilence);
}

TEST(PermitKeeper, EndsAnAttemptThatIsOnItsWay) {
  std::atomic<bool> cancelled = false;
  EventFd under_way;
  {
    PermitKeeper keeper(HeldPermit(BootTime(), {}, Seconds(1)),
                        [&](int, int cancel_fd) -> Result<PermitFateAnswer> {
                          under_way.Set();
                          cancelled = Readable(cancel_fd, kPatienceMs);
                          return Fail(ErrorKind::kUnavailable, "ended");
                        });
    ASSERT_TRUE(Readable(under_way.fd(), kPatienceMs));
  }
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace penstock::app
