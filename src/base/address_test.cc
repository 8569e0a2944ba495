#include "base/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "base/test_seed.h"

namespace penstock {
namespace {

std::string Normal(std::string_view text) {
  const auto address = ParseAddress(text);
  if (!address) return "none";
  std::string out;
  address->AppendText(out);
  return out;
}

TEST(Address, TextIsNormalised) {
  EXPECT_EQ(Normal("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(Normal("0.0.0.0"), "0.0.0.0");
  EXPECT_EQ(Normal("255.255.255.255"), "255.255.255.255");
  EXPECT_EQ(Normal("2001:DB8:0:0:0:0:0:1"), "2001:db8::1");
  EXPECT_EQ(Normal("::"), "::");
  EXPECT_EQ(Normal("::1"), "::1");
  EXPECT_EQ(Normal("1::"), "1::");
  EXPECT_EQ(Normal("2001:db8:0:1:0:0:0:1"), "2001:db8:0:1::1");
  EXPECT_EQ(Normal("1:0:2:3:4:5:6:7"), "1:0:2:3:4:5:6:7");
  EXPECT_EQ(Normal("1:0:0:2:3:0:0:4"), "1::2:3:0:0:4");
}

TEST(Address, MappedAddressIsTheV4Address) {
  EXPECT_EQ(Normal("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(Normal("::FFFF:C000:0201"), "192.0.2.1");
  EXPECT_EQ(ParseAddress("::ffff:10.0.0.1"), ParseAddress("10.0.0.1"));
  EXPECT_NE(ParseAddress("::10.0.0.1"), ParseAddress("10.0.0.1"));
}

TEST(Address, WhatIsNoAddressIsRefused) {
  using namespace std::string_view_literals;
  for (const auto text : {""sv,           "1.2.3"sv,         "1.2.3.4.5"sv,
                          "1.2.3.256"sv,  "01.2.3.4"sv,      "1.2.3.4 "sv,
                          " 1.2.3.4"sv,   "1..2.3"sv,        "1.2.3."sv,
                          "0001.2.3.4"sv, "-1.2.3.4"sv,      "1.2.3.4:80"sv,
                          "[::1]"sv,      "fe80::1%eth0"sv,  ":"sv,
                          ":::"sv,        "1:2:3:4:5:6:7"sv, "1:2:3:4:5:6:7:8:9"sv,
                          "::12345"sv,    "::1\0x"sv,        "localhost"sv,
                          "1.2.3.4\0"sv}) {
    EXPECT_EQ(Normal(text), "none") << text;
  }
  EXPECT_EQ(Normal(std::string(1'000, ':')), "none");
  EXPECT_EQ(Normal(std::string(1'000, '1')), "none");
}

TEST(Address, MaskKeepsTheLeadingBits) {
  const auto masked = [](std::string_view text, int bits) {
    std::string out;
    ParseAddress(text)->Masked(bits).AppendText(out);
    return out;
  };
  EXPECT_EQ(masked("192.0.2.129", 24), "192.0.2.0");
  EXPECT_EQ(masked("192.0.2.129", 25), "192.0.2.128");
  EXPECT_EQ(masked("192.0.2.129", 0), "0.0.0.0");
  EXPECT_EQ(masked("192.0.2.129", 32), "192.0.2.129");
  EXPECT_EQ(masked("192.0.2.129", 64), "192.0.2.129");
  EXPECT_EQ(masked("192.0.2.129", -1), "0.0.0.0");
  EXPECT_EQ(masked("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::");
  EXPECT_EQ(masked("2001:db8:1:2:8003:4:5:6", 65), "2001:db8:1:2:8000::");
  EXPECT_EQ(masked("2001:db8:1:2:3:4:5:6", 32), "2001:db8::");
  EXPECT_EQ(masked("2001:db8:1:2:3:4:5:6", 0), "::");
  EXPECT_EQ(masked("2001:db8:1:2:3:4:5:6", 128), "2001:db8:1:2:3:4:5:6");
}

TEST(Address, NetworkContainsItsOwnAndNoOther) {
  const auto contains = [](std::string_view network, std::string_view address) {
    return Cidr::Parse(network)->Contains(*ParseAddress(address));
  };
  EXPECT_TRUE(contains("127.0.0.0/8", "127.3.4.5"));
  EXPECT_FALSE(contains("127.0.0.0/8", "128.0.0.1"));
  EXPECT_TRUE(contains("127.0.0.0/8", "::ffff:127.0.0.1"));
  EXPECT_TRUE(contains("::ffff:10.0.0.0/104", "10.200.0.1"));
  EXPECT_FALSE(contains("::ffff:10.0.0.0/104", "11.0.0.1"));
  EXPECT_TRUE(contains("10.1.2.3", "10.1.2.3"));
  EXPECT_FALSE(contains("10.1.2.3", "10.1.2.4"));
  EXPECT_TRUE(contains("0.0.0.0/0", "9.9.9.9"));
  EXPECT_FALSE(contains("::/0", "9.9.9.9"));
  EXPECT_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(contains("2001:db8::/32", "2001:db8:ffff::1"));
  EXPECT_FALSE(contains("2001:db8::/32", "2001:db9::1"));
}

TEST(Address, NetworkIsWrittenWithoutBitsBehindTheMask) {
  std::string out;
  Cidr::Parse("10.1.2.3/8")->AppendText(out);
  EXPECT_EQ(out, "10.0.0.0/8");
  EXPECT_EQ(*Cidr::Parse("10.1.2.3/8"), *Cidr::Parse("10.0.0.0/8"));
}

TEST(Address, WhatIsNoNetworkIsRefused) {
  for (const std::string_view text :
       {"", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/-0", "10.0.0.0/08",
        "10.0.0.0/8/8", "::/129", "::ffff:10.0.0.0/95", "10.0.0/8", "10.0.0.0/+8", "10.0.0.0/8 "}) {
    EXPECT_FALSE(Cidr::Parse(text)) << text;
  }
}

TEST(Address, RandomAddressesSurviveTheirTextAndAgreeWithTheLibrary) {
  Random random(TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    std::array<unsigned char, 16> bytes{};
    for (auto& byte : bytes) byte = random.Below(3) == 0 ? static_cast<unsigned char>(random.Next()) : 0;
    const IpAddress address = IpAddress::V6(bytes);
    std::string text;
    address.AppendText(text);
    ASSERT_EQ(ParseAddress(text), address) << text;

    const uint32_t v4 = static_cast<uint32_t>(random.Next());
    text.clear();
    IpAddress::V4(v4).AppendText(text);
    in_addr parsed;
    ASSERT_EQ(inet_pton(AF_INET, text.c_str(), &parsed), 1) << text;
    ASSERT_EQ(ntohl(parsed.s_addr), v4);
    ASSERT_EQ(ParseAddress(text), IpAddress::V4(v4));
  }
}

}  // namespace
}  // namespace penstock
