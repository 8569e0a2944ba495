#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"

namespace penstock {
namespace {

TEST(Bytes, SizedTextsCannotRunIntoEachOther) {
  const auto joined = [](std::string_view a, std::string_view b) {
    std::string out = "x";
    AppendSized(out, a);
    AppendSized(out, b);
    return out;
  };
  EXPECT_EQ(joined("ab", ""), "x2:ab0:");
  EXPECT_NE(joined("a", "b"), joined("ab", ""));
  EXPECT_NE(joined("1:a", ""), joined("1", ":a"));
}

TEST(Time, MillisAndSecondsRoundUp) {
  EXPECT_EQ(CeilMillis({0}), 0);
  EXPECT_EQ(CeilMillis({1}), 1);
  EXPECT_EQ(CeilMillis({1'000}), 1);
  EXPECT_EQ(CeilSeconds({1'000'001}), 2);
}

TEST(Clock, SystemClockIsNearWallTimeAndMonotone) {
  SystemClock clock;
  const EngineTime first = clock.Now();
  EXPECT_GT(first.us, 1'700'000'000'000'000);
  EXPECT_LE(first, clock.Now());
}

// A clock that is ahead of the servers' would call a lease over that still runs.
TEST(Clock, SystemClockIsNeverAheadOfTheWallClock) {
  int64_t behind_us = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 10'000; ++i) {
    const SystemClock clock;
    const EngineTime now = clock.Now();
    const int64_t wall_us = std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
    ASSERT_LE(now.us, wall_us) << "clock " << i;
    behind_us = std::min(behind_us, wall_us - now.us);
  }
  EXPECT_LT(behind_us, 1'000'000);
}

TEST(Clock, ManualClockStepsBackButSteadyDoesNot) {
  ManualClock clock({1'000});
  clock.Set({2'000});
  clock.Set({500});
  EXPECT_EQ(clock.Now().us, 500);
  EXPECT_EQ(clock.Steady().us, 2'000);
}

TEST(Hash, PartsNeverMeetWhereASeparatorFalls) {
  const HashKey key = HashKey::Random();
  const std::string_view joined[] = {"a_b"};
  const std::string_view split[] = {"a", "b"};
  const std::string_view shifted[] = {"", "ab"};
  const std::string_view shifted_back[] = {"ab", ""};
  EXPECT_NE(key.HashParts(joined), key.HashParts(split));
  EXPECT_NE(key.HashParts(shifted), key.HashParts(shifted_back));
}

TEST(Hash, LongPartsHashLikeShortOnes) {
  const HashKey key = HashKey::Random();
  const std::string big(70'000, 'x');
  const std::string_view a[] = {big, "1"};
  const std::string_view b[] = {big, "2"};
  EXPECT_EQ(key.HashParts(a), key.HashParts(a));
  EXPECT_NE(key.HashParts(a), key.HashParts(b));
}

TEST(Hash, AnotherSeedGivesAnotherHash) {
  EXPECT_NE(HashKey::Random().Hash("user"), HashKey::Random().Hash("user"));
}

TEST(Random, BetweenStaysInside) {
  Random random(7);
  for (int i = 0; i < 1'000; ++i) {
    const int64_t value = random.Between(-3, 3);
    EXPECT_GE(value, -3);
    EXPECT_LE(value, 3);
  }
}

TEST(Bytes, ParseIntTakesDigitsOnly) {
  EXPECT_EQ(ParseInt("-12"), -12);
  EXPECT_EQ(ParseInt("9223372036854775807"), INT64_MAX);
  EXPECT_FALSE(ParseInt("9223372036854775808"));
  EXPECT_FALSE(ParseInt(""));
  EXPECT_FALSE(ParseInt("1 "));
  EXPECT_FALSE(ParseInt("+1"));
}

TEST(Bytes, ConstantTimeEqualsTellsASecretFromItsPrefixAndItsDouble) {
  EXPECT_TRUE(ConstantTimeEquals("secret", "secret"));
  EXPECT_TRUE(ConstantTimeEquals("", ""));
  for (const std::string_view wrong : {"", "secre", "secreT", "secrets", "secretsecret"}) {
    EXPECT_FALSE(ConstantTimeEquals("secret", wrong)) << wrong;
  }
  EXPECT_FALSE(ConstantTimeEquals("", "x"));
}

TEST(Bytes, NearestFindsASlipAndNothingForAStranger) {
  const std::string_view words[] = {"rate", "burst", "algorithm"};
  EXPECT_EQ(Nearest("brust", words, 3), "burst");
  EXPECT_EQ(Nearest("algoritm", words, 3), "algorithm");
  EXPECT_EQ(Nearest("zzz", words, 3), "");
}

TEST(Ascii, CaseIsOnlyThatOfLetters) {
  EXPECT_TRUE(EqualsIgnoringCase("Content-Type", "cONTENT-tYPE"));
  EXPECT_TRUE(EqualsIgnoringCase("", ""));
  EXPECT_FALSE(EqualsIgnoringCase("a", "ab"));
  // 0x20 apart, and no letters.
  EXPECT_FALSE(EqualsIgnoringCase("@", "`"));
  EXPECT_FALSE(EqualsIgnoringCase("[", "{"));
  EXPECT_FALSE(EqualsIgnoringCase("\xc1", "\xe1"));
}

TEST(Ascii, HexadecimalDigits) {
  int digits = 0;
  for (int c = 0; c < 256; ++c) digits += HexValue(static_cast<char>(c)) >= 0;
  EXPECT_EQ(digits, 22);
  EXPECT_EQ(HexValue('0'), 0);
  EXPECT_EQ(HexValue('9'), 9);
  EXPECT_EQ(HexValue('a'), 10);
  EXPECT_EQ(HexValue('F'), 15);
}

TEST(Bytes, HexHasTwoLowerCaseDigitsAByte) {
  const unsigned char bytes[] = {0x00, 0x0f, 0xa7, 0xff};
  std::string out = "x";
  AppendHex(out, bytes);
  EXPECT_EQ(out, "x000fa7ff");
}

}  // namespace
}  // namespace penstock
