#include "policy/definition_text.h"

#include <gtest/gtest.h>

#include "policy/matcher.h"
#include "policy/reader.h"

namespace penstock::policy {
namespace {

constexpr std::string_view kPolicy = R"(
domains:
  api:
    limits:
      - {name: plain, rate: 100/min}
      - name: full
        key: [user, {ip: {mask4: 24, mask6: 64}}]
        match:
          path: /login
          method: [POST, PUT]
          host: "*.example.com"
          agent: {regex: "a\\d+\x7f\u0085\u2028", not: {exact: "b*"}}
          ip: {cidr: [10.0.0.0/8, "2001:db8::/32"], not: {cidr: 10.1.0.0/16}}
          odd: [{glob: "x*", exact: ["x1", "y"]}, plain, {not: [a, "b*"]}]
          "": {exact: "*"}
        rate: 5/10s
        burst: 20
        unit: tokens
        shadow: true
        on_failure: deny
        overrides:
          - {match: {user: "partner-*"}, rate: 1000/min, burst: 7}
          - {match: {user: banned}, rate: 0}
          - {match: {user: ["a\nb", "\"quoted\" \\ back"]}, rate: unlimited}
      - {name: month, rate: 1_000, calendar: month, timezone: Europe/Berlin}
      - {name: first, rate: 10/h, from: first_request}
      - {name: log, rate: 10/h, algorithm: sliding_log}
      - {name: sliding, rate: 10/h, algorithm: sliding_window}
      - {name: held, key: user, permits: 5, lease: 90s, overrides: [{match: {user: a}, permits: 9}]}
)";

std::vector<LimitDefinition> Read() {
  Diagnostics diagnostics;
  std::string text(kPolicy);
  text.replace(text.find("\"\": {exact"), 2, "star");
  std::optional<PolicyFile> file = ReadPolicyText(text, "p.yaml", diagnostics);
  EXPECT_EQ(diagnostics.Text(), "");
  return std::move(file->domains[0].limits);
}

BuildOptions Everything() {
  BuildOptions options;
  options.permits = true;
  return options;
}

TEST(DefinitionTextTest, WhatIsReadBackSaysTheSame) {
  for (const LimitDefinition& limit : Read()) {
    const std::string text = DefinitionText(limit);
    const Result<LimitDefinition> back = ReadDefinition(text, "api", limit.name, Everything());
    ASSERT_TRUE(back) << text << "\n" << back.error().message;
    EXPECT_EQ(DefinitionText(*back), text);
    EXPECT_EQ(MatchText(back->match), MatchText(limit.match)) << text;
    ASSERT_EQ(back->overrides.size(), limit.overrides.size());
    for (size_t i = 0; i < limit.overrides.size(); ++i) {
      EXPECT_EQ(MatchText(back->overrides[i].match), MatchText(limit.overrides[i].match));
      EXPECT_EQ(back->overrides[i].rate, limit.overrides[i].rate);
      EXPECT_EQ(back->overrides[i].burst, limit.overrides[i].burst);
      EXPECT_EQ(back->overrides[i].permits, limit.overrides[i].permits);
    }
    EXPECT_EQ(back->rate, limit.rate);
    EXPECT_EQ(back->burst, limit.burst);
    EXPECT_EQ(back->permits, limit.permits);
    EXPECT_EQ(back->lease, limit.lease);
    EXPECT_EQ(back->algorithm, limit.algorithm);
    EXPECT_EQ(back->window, limit.window);
    EXPECT_EQ(back->timezone, limit.timezone);
    EXPECT_EQ(back->unit, limit.unit);
    EXPECT_EQ(back->shadow, limit.shadow);
    EXPECT_EQ(back->on_failure, limit.on_failure);
    EXPECT_EQ(back->key.size(), limit.key.size());
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(DefinitionTextTest, TheTextIsShortAndPlain) {
  EXPECT_EQ(DefinitionText(Read()[0]), R"({"name":"plain","rate":"100/min"})");
  EXPECT_EQ(DefinitionText(Read()[3]),
            R"({"name":"first","rate":"10/h","algorithm":"fixed_window","from":"first_request"})");
}

std::string WhyNot(std::string_view text) {
  const Result<LimitDefinition> read = ReadDefinition(text, "api", "l", {});
  return read ? "fine" : read.error().message;
}

TEST(DefinitionTextTest, ErrorsNameTheFieldAndTheNearestWord) {
  EXPECT_EQ(WhyNot(R"({"rate":"10/min"})"), "fine");
  EXPECT_EQ(WhyNot("key: [user]\nrate: 10/min\n"), "fine");
  EXPECT_EQ(WhyNot(R"({"name":"other","rate":"10/min"})"),
            R"(the name is "other", not "l" as the path says)");
  EXPECT_NE(WhyNot(R"({"rate":"10/min","brst":3})").find("did you mean burst"), std::string::npos);
  EXPECT_NE(WhyNot(R"({"rate":"10/mn"})").find("rate: "), std::string::npos);
  EXPECT_NE(WhyNot("key: [user]\nrate: 10/mn\n").find("line 2: rate: "), std::string::npos);
  EXPECT_NE(WhyNot(R"({})").find("needs a rate or permits"), std::string::npos) << WhyNot("{}");
  EXPECT_NE(WhyNot(R"({"permits":3})").find("cannot hold yet"), std::string::npos);
  for (const std::string_view wrong : {"", "[]", "5", "{", "{\"rate\":", "\x01"})
    EXPECT_NE(WhyNot(wrong), "fine") << wrong;
}

}  // namespace
}  // namespace penstock::policy
