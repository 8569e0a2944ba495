#include "engine/permit_id.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "base/test_seed.h"
#include "penstock/request.h"

namespace penstock::engine {
namespace {

PermitId RandomPermit(Random& random) {
  PermitId permit{.id = {random.Next(), random.Next()},
                  .weight = static_cast<uint32_t>(random.Between(1, kMaxCost)),
                  .local = random.Below(2) == 1,
                  .size = static_cast<uint8_t>(random.Between(1, kMaxPermitBuckets))};
  for (PermitPlace& place : std::span(permit.places.data(), permit.size)) {
    place = {{random.Next(), random.Next()}, random.Between(0, INT64_MAX)};
  }
  return permit;
}

TEST(PermitId, ComesBackFromItsText) {
  Random random(TestSeed());
  for (int i = 0; i < 1'000; ++i) {
    const PermitId permit = RandomPermit(random);
    const PermitText text = ToText(permit);
    EXPECT_LE(text.view().size(), PermitText::kMaxBytes);
    const std::optional<PermitId> back = ParsePermitId(text.view());
    ASSERT_TRUE(back) << text.view();
    EXPECT_TRUE(*back == permit) << text.view();
  }
}

TEST(PermitId, OfOtherTextNothingIsReadAndEveryPermitHasOneText) {
  Random random(TestSeed());
  const std::string good(ToText(RandomPermit(random)).view());
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string("released"), good + "A", good.substr(1),
        good.substr(0, good.size() - 1), "!" + good.substr(1), std::string(284, 'A'), std::string(285, 'A'),
        std::string(10'000, 'B'), good.substr(0, 27) + '\0' + good.substr(28), good + "="}) {
    EXPECT_FALSE(ParsePermitId(bad)) << bad;
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string other = good;
    other[random.Below(other.size())] = static_cast<char>(random.Below(256));
    const std::optional<PermitId> read = ParsePermitId(other);
    if (read) {
      EXPECT_EQ(ToText(*read).view(), other);
    }
  }
}

}  // namespace
}  // namespace penstock::engine
