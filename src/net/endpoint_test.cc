#include "net/endpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::net {
namespace {

TEST(ListeningSocket, APortThatIsListenedOnCannotBeReserved) {
  const Result<Endpoint> free = ReserveEndpoint(*ParseEndpoint("127.0.0.1:0"));
  ASSERT_TRUE(free);
  EXPECT_NE(free->port, 0);
  const Result<int> first = OpenListeningSocket(*free);
  const Result<int> second = OpenListeningSocket(*free);  // another loop of the same server
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  const Result<Endpoint> taken = ReserveEndpoint(*free);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::kConflict);
  ::close(*first);
  ::close(*second);
}

}  // namespace
}  // namespace penstock::net
