#include "service/request_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "service/test_support.h"

namespace penstock::service {
namespace {

using std::chrono::milliseconds;

Request Plain() {
  Request request;
  request.domain = "api";
  return request;
}

// The message, or "" when the request is fine.
std::string Wrong(const Request& request) {
  const Result<void> checked = CheckRequest(request);
  EXPECT_FALSE(IsPlain(request) && !checked) << checked.error().message;
  return checked ? "" : checked.error().message;
}

TEST(CheckRequest, TakesTheOrdinary) {
  EXPECT_EQ(Wrong(Plain()), "");
  EXPECT_TRUE(IsPlain(Plain()));
}

TEST(CheckRequest, CostsHaveBoundsEitherWay) {
  Request request = Plain();
  for (const int64_t good : {int64_t{0}, int64_t{-1}, kMaxCost, -kMaxCost}) {
    request.options.cost = good;
    EXPECT_EQ(Wrong(request), "") << good;
  }
  for (const int64_t bad : {kMaxCost + 1, -kMaxCost - 1, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()}) {
    request.options.cost = bad;
    EXPECT_NE(Wrong(request), "") << bad;
    EXPECT_FALSE(IsPlain(request));
    const std::array<UnitCost, 2> costs = {{{"requests", 1}, {"tokens", bad}}};
    Request by_unit = Plain();
    by_unit.options.costs = costs;
    EXPECT_NE(Wrong(by_unit).find("\"tokens\""), std::string::npos);
  }
}

TEST(CheckRequest, UnitsAreFewNamedAndNamedOnce) {
  Request request = Plain();
  const std::array<UnitCost, 2> twice = {{{"tokens", 1}, {"tokens", 2}}};
  request.options.costs = twice;
  EXPECT_NE(Wrong(request).find("twice"), std::string::npos);
  const std::array<UnitCost, 1> nameless = {{{"", 1}}};
  request.options.costs = nameless;
  EXPECT_NE(Wrong(request), "");
  std::vector<std::string> names;
  for (size_t i = 0; i <= kMaxUnitsPerRequest; ++i) names.push_back("u" + std::to_string(i));
  std::vector<UnitCost> many;
  for (const std::string& name : names) many.push_back({name, 1});
  request.options.costs = many;
  EXPECT_NE(Wrong(request), "");
  many.pop_back();
  request.options.costs = many;
  EXPECT_EQ(Wrong(request), "");
}

TEST(CheckRequest, EveryOptionNamesItsFieldWhenItIsOutOfBounds) {
  const auto wrong = [](auto change) {
    Request request = Plain();
    change(request.options);
    return Wrong(request);
  };
  EXPECT_EQ(wrong([](CheckOptions& o) { o.max_wait = milliseconds(kMaxWaitMs); }), "");
  EXPECT_NE(wrong([](CheckOptions& o) { o.max_wait = milliseconds(kMaxWaitMs + 1); }).find("max_wait_ms"),
            std::string::npos);
  EXPECT_NE(wrong([](CheckOptions& o) { o.max_wait = milliseconds(-1); }), "");
  EXPECT_NE(wrong([](CheckOptions& o) { o.weight = 0; }).find("weight"), std::string::npos);
  const std::string longest(kMaxRequestIdBytes, 'r');
  EXPECT_EQ(wrong([&](CheckOptions& o) { o.request_id = longest; }), "");
  const std::string longer = longest + "r";
  EXPECT_NE(wrong([&](CheckOptions& o) { o.request_id = longer; }).find("request_id"), std::string::npos);
  EXPECT_EQ(wrong([](CheckOptions& o) {
              o.request_id = "r";
              o.settle_within = milliseconds(kMaxSettleWithinMs);
            }),
            "");
  EXPECT_NE(wrong([](CheckOptions& o) {
              o.request_id = "r";
              o.settle_within = milliseconds(kMaxSettleWithinMs + 1);
            }).find("settle_within_ms"),
            std::string::npos);
  EXPECT_NE(wrong([](CheckOptions& o) { o.settle_within = milliseconds(5); }), "");
  EXPECT_NE(wrong([](CheckOptions& o) { o.lease = milliseconds(-5); }).find("lease_ms"), std::string::npos);
  EXPECT_NE(wrong([](CheckOptions& o) { o.lease = milliseconds(kMaxLeaseMs + 1); }).find("lease_ms"),
            std::string::npos);
  const std::string long_holder(kMaxHolderBytes + 1, 'h');
  EXPECT_NE(wrong([&](CheckOptions& o) { o.holder = long_holder; }).find("holder"), std::string::npos);
  EXPECT_NE(wrong([](CheckOptions& o) { o.force = o.partial = true; }), "");
}

TEST(CheckRequest, AttributesAndKeysHaveBounds) {
  Request request = Plain();
  std::vector<Attribute> attributes(kMaxAttributesPerRequest, Attribute{"a", "b"});
  request.attributes = attributes;
  EXPECT_EQ(Wrong(request), "");
  attributes.push_back({"a", "b"});
  request.attributes = attributes;
  EXPECT_NE(Wrong(request), "");
}

// Case C39: nothing changes when what was used is missing or makes no sense.
TEST(CheckRequest, SettleNeedsAnIdAndWhatWasUsed) {
  Request request = Plain();
  request.mode = engine::Mode::kSettle;
  const std::array<UnitCost, 1> used = {{{"tokens", 5}}};
  request.options.costs = used;
  EXPECT_NE(Wrong(request).find("request_id"), std::string::npos);
  request.options.request_id = "r";
  EXPECT_EQ(Wrong(request), "");
  request.options.costs = {};
  EXPECT_NE(Wrong(request).find("costs"), std::string::npos);
  const std::array<UnitCost, 1> negative = {{{"tokens", -5}}};
  request.options.costs = negative;
  EXPECT_NE(Wrong(request), "");
}

// --- fingerprints (rule E10) --------------------------------------------------------------------------------------

uint64_t Print(const Request& request) {
  std::string scratch;
  return Fingerprint(request, scratch);
}

TEST(Fingerprint, IsOfTheRequestNotOfItsOrder) {
  std::vector<Attribute> attributes = {{"user", "42"}, {"ip", "10.0.0.1"}, {"path", "/"}};
  std::vector<UnitCost> costs = {{"requests", 1}, {"tokens", 500}};
  Request request = Plain();
  request.attributes = attributes;
  request.options.costs = costs;
  const uint64_t print = Print(request);
  std::reverse(attributes.begin(), attributes.end());
  std::reverse(costs.begin(), costs.end());
  EXPECT_EQ(Print(request), print);
  // A retry may have less time left.
  request.options.max_wait = milliseconds(10);
  request.options.holder = "h";
  EXPECT_EQ(Print(request), print);
}

TEST(Fingerprint, DiffersWhereTheChargeWould) {
  const std::vector<Attribute> attributes = {{"user", "42"}};
  Request request = Plain();
  request.attributes = attributes;
  std::vector<uint64_t> prints = {Print(request)};
  const auto differs = [&prints](const Request& other) {
    const uint64_t print = Print(other);
    EXPECT_EQ(std::count(prints.begin(), prints.end(), print), 0);
    prints.push_back(print);
  };
  Request other = request;
  other.options.cost = 2;
  differs(other);
  other = request;
  other.options.force = true;
  differs(other);
  other = request;
  other.options.partial = true;
  differs(other);
  other = request;
  other.options.weight = 2;
  differs(other);
  other = request;
  other.options.lease = milliseconds(5'000);  // of a permit: it would be another one
  differs(other);
  other = request;
  other.domain = "apj";
  differs(other);
  const std::vector<Attribute> user43 = {{"user", "43"}};
  other.domain = "api";
  other.attributes = user43;
  differs(other);
  // Neither the border between name and value nor that between attributes can be moved unseen.
  const std::vector<Attribute> moved = {{"user4", "2"}};
  other.attributes = moved;
  differs(other);
  Request ad_hoc;
  ad_hoc.ad_hoc = Spec("10/min");
  ad_hoc.ad_hoc_key = "42";
  differs(ad_hoc);
  ad_hoc.ad_hoc = Spec("11/min");
  differs(ad_hoc);
}

TEST(Fingerprint, TheDefaultCostIsThatOfTheUnitRequests) {
  Request request = Plain();
  const uint64_t print = Print(request);
  const std::array<UnitCost, 1> one = {{{"requests", 1}}};
  request.options.costs = one;
  EXPECT_EQ(Print(request), print);
}

}  // namespace
}  // namespace penstock::service
