#include "policy/reader.h"

#include <gtest/gtest.h>

#include "policy/policy.h"

namespace penstock::policy {
namespace {

// Every error of a file, without the file's name.
std::string ErrorsOf(std::string_view text, const BuildOptions& options = {}) {
  Diagnostics diagnostics;
  const auto policy = ReadPolicy(text, "p.yaml", options, diagnostics);
  EXPECT_EQ(policy == nullptr, !diagnostics.ok());
  std::string out;
  for (const Diagnostic& error : diagnostics.errors()) {
    EXPECT_EQ(error.file, "p.yaml");
    out += std::to_string(error.line) + ": " + error.message + "\n";
  }
  return out;
}

// The errors of one limit, whose lines count from 1 behind the lines that stand around it.
std::string LimitErrors(std::string_view limit) {
  const std::string text = "domains: {d: {limits: [{name: a, rate: 1/s,\n" + std::string(limit) + "}]}}\n";
  return ErrorsOf(text);
}

std::string FullErrors(std::string_view limit) {
  return ErrorsOf("domains: {d: {limits: [{\n" + std::string(limit) + "}]}}\n");
}

constexpr std::string_view kDesign = R"(
revision: 7
domains:
  api:
    limits:
      - name: per-user
        key: [user]
        rate: 100/min
        burst: 20
        overrides:
          - {match: {user: "partner-*"}, rate: 1000/min}
          - {match: {user: banned},      rate: 0}
      - name: login
        match: {path: /login, method: [POST, PUT]}
        key: [{ip: {mask6: 64}}]
        rate: 5/min
        algorithm: sliding_window
      - {name: tpm, key: [user], unit: tokens, rate: 500_000/min}
      - {name: everyone, rate: 5000/s, shadow: true}
      - {name: monthly, key: user, rate: 1000, calendar: month, timezone: Europe/Berlin, on_failure: deny}
)";

TEST(Reader, ReadsTheDesignsPolicy) {
  Diagnostics diagnostics;
  const auto policy = ReadPolicy(kDesign, "p.yaml", {}, diagnostics);
  ASSERT_NE(policy, nullptr) << diagnostics.Text();
  EXPECT_EQ(policy->revision(), 7);
  ASSERT_EQ(policy->limits().size(), 7u);
  const core::Limit& user = *policy->limits()[0];
  EXPECT_EQ(user.name, "per-user");
  EXPECT_EQ(user.params.capacity, 20);
  EXPECT_EQ(policy->limits()[1]->params.count, 1000);
  EXPECT_EQ(policy->limits()[1]->params.capacity, 20);
  EXPECT_EQ(policy->limits()[2]->params.kind, core::RateKind::kZero);
  EXPECT_EQ(policy->limits()[3]->params.algorithm, core::Algorithm::kSlidingWindow);
  EXPECT_EQ(policy->limits()[4]->unit, "tokens");
  EXPECT_TRUE(policy->limits()[5]->shadow);
  const core::Limit& monthly = *policy->limits()[6];
  EXPECT_EQ(monthly.params.window, core::WindowKind::kMonth);
  EXPECT_EQ(monthly.timezone, "Europe/Berlin");
  EXPECT_EQ(monthly.on_failure, core::OnFailure::kDeny);

  MatchScratch scratch;
  const Attribute attributes[] = {
      {"user", "partner-x"}, {"path", "/login"}, {"method", "PUT"}, {"ip", "2001:db8::1"}};
  ASSERT_TRUE(policy->Match(*policy->FindDomain("api"), attributes, scratch));
  ASSERT_EQ(scratch.matches.size(), 5u);
  EXPECT_EQ(scratch.matches[0].limit, policy->limits()[1]);
  EXPECT_EQ(scratch.parts[scratch.matches[1].first_part], "2001:db8::");
}

TEST(Reader, MatchersOfEveryForm) {
  const std::string text = R"(domains:
  d:
    limits:
      - {name: star, rate: 1/s, match: {a: {exact: "*"}}}
      - {name: glob, rate: 1/s, match: {a: {glob: ["x*", "*y"]}}}
      - {name: regex, rate: 1/s, match: {a: {regex: "[a-c]+."}}}
      - {name: cidr, rate: 1/s, match: {a: {cidr: [10.0.0.0/8, "2001:db8::/32"]}}}
      - {name: not, rate: 1/s, match: {a: {not: [x1, {cidr: 10.0.0.0/8}]}}}
      - {name: both, rate: 1/s, match: {a: {glob: "x*", not: x1}}}
      - {name: number, rate: 1/s, match: {a: 200}}
      - {name: empty, rate: 1/s, match: {a: ""}}
)";
  Diagnostics diagnostics;
  const auto policy = ReadPolicy(text, "p.yaml", {}, diagnostics);
  ASSERT_NE(policy, nullptr) << diagnostics.Text();
  const auto names = [&](std::vector<Attribute> attributes) {
    MatchScratch scratch;
    EXPECT_TRUE(policy->Match(*policy->FindDomain("d"), attributes, scratch));
    std::string out;
    for (const Match& match : scratch.matches) out += match.limit->name + " ";
    return out;
  };
  EXPECT_EQ(names({{"a", "*"}}), "star not ");
  EXPECT_EQ(names({{"a", "x1"}}), "glob ");
  EXPECT_EQ(names({{"a", "x2"}}), "glob not both ");
  EXPECT_EQ(names({{"a", "abc\n"}}), "regex not ");
  EXPECT_EQ(names({{"a", "abc\xff"}}), "regex not ");
  EXPECT_EQ(names({{"a", "abcdd"}}), "not ");
  EXPECT_EQ(names({{"a", "10.1.2.3"}}), "cidr ");
  EXPECT_EQ(names({{"a", "::ffff:10.1.2.3"}}), "cidr ");
  EXPECT_EQ(names({{"a", "2001:db8::5"}}), "cidr not ");
  EXPECT_EQ(names({{"a", "200"}}), "not number ");
  EXPECT_EQ(names({{"a", ""}}), "not empty ");
  EXPECT_EQ(names({}), "not ");
}

TEST(Reader, UnknownKeysNameTheNearest) {
  EXPECT_EQ(LimitErrors("brust: 5"), "2: unknown key \"brust\" in a limit (did you mean burst?)\n");
  EXPECT_EQ(ErrorsOf("domain: {}\n"), "1: unknown key \"domain\" in the file (did you mean domains?)\n");
  EXPECT_EQ(ErrorsOf("domains: {d: {limit: []}}\n"),
            "1: unknown key \"limit\" in a domain (did you mean limits?)\n1: a domain needs limits\n");
  EXPECT_EQ(LimitErrors("match: {a: {regexp: x}}"),
            "2: unknown key \"regexp\" in a matcher (did you mean regex?)\n");
  EXPECT_EQ(LimitErrors("match: {a: {zzzzzzz: x}}"),
            "2: unknown key \"zzzzzzz\" in a matcher (one of exact, glob, regex, cidr, not)\n");
  EXPECT_EQ(LimitErrors("key: [{ip: {mask: 64}}]"),
            "2: unknown key \"mask\" in a key part (did you mean mask4?)\n");
  EXPECT_EQ(LimitErrors("overrides: [{match: {a: b}, rat: 1/s}]"),
            "2: unknown key \"rat\" in an override (did you mean rate?)\n");
}

TEST(Reader, WrongValues) {
  EXPECT_EQ(LimitErrors("burst: 0"), "2: burst is 1 to 4503599627370496, not 0\n");
  EXPECT_EQ(LimitErrors("burst: -1"), "2: burst: \"-1\" is no whole number\n");
  EXPECT_EQ(LimitErrors("burst: [1]"), "2: burst is a whole number, not a list\n");
  EXPECT_EQ(LimitErrors("shadow: yes"), "2: shadow is true or false, not \"yes\"\n");
  EXPECT_EQ(LimitErrors("algorithm: tokenbucket"),
            "2: algorithm cannot be \"tokenbucket\" (did you mean token_bucket?)\n");
  EXPECT_EQ(LimitErrors("on_failure: allowed"),
            "2: on_failure cannot be \"allowed\" (did you mean allow?)\n");
  EXPECT_EQ(LimitErrors("unit: a b"), "2: the unit \"a b\" is not 1 to 64 of A-Z a-z 0-9 . _ -\n");
  EXPECT_EQ(LimitErrors("key: [user, user]"), "2: the attribute \"user\" stands twice in the key\n");
  EXPECT_EQ(LimitErrors("key: [{a: {}, b: {}}]"), "2: a key part is one attribute; write [a, b] for two\n");
  EXPECT_EQ(LimitErrors("key: [{ip: {mask6: 129}}]"), "2: mask6 is 0 to 128, not 129\n");
  EXPECT_EQ(LimitErrors("match: {a: []}"), "2: a match with an empty list holds for nobody\n");
  EXPECT_EQ(LimitErrors("match: {a: }"), "2: a matcher is missing (the empty text is written \"\")\n");
  EXPECT_EQ(LimitErrors("match: {a: {}}"),
            "2: a matcher is missing (one of exact, glob, regex, cidr, not)\n");
  EXPECT_EQ(LimitErrors("match: {a: {regex: \"(\"}}").substr(0, 41),
            "2: the regular expression \"(\" is wrong: m");
  EXPECT_EQ(LimitErrors("match: {a: {cidr: 10.0.0.0/33}}"),
            "2: \"10.0.0.0/33\" is no network (e.g. 10.0.0.0/8 or 2001:db8::/32)\n");
  EXPECT_EQ(LimitErrors("match: [a]"), "2: match is a mapping, not a list\n");
  EXPECT_EQ(LimitErrors("rate: 2/s"), "2: \"rate\" stands twice, first in line 1\n");
  EXPECT_EQ(LimitErrors("lease: 30s"), "2: lease goes with permits\n");
  EXPECT_EQ(LimitErrors("timezone: UTC"), "2: timezone goes with calendar only\n");
  EXPECT_EQ(LimitErrors("permits: 5"), "2: a limit has a rate or permits, not both\n");
  EXPECT_EQ(LimitErrors("algorithm: sliding_log,\nburst: 3"),
            "3: burst goes with algorithm token_bucket only\n");
}

// Case C12 in a policy file.
TEST(Reader, ShardByNamesAnAttributeOfKeys) {
  constexpr std::string_view kLimits = "    limits: [{name: a, key: [tenant, user], rate: 1/s}]\n";
  const auto errors = [&](std::string_view line) {
    return ErrorsOf("domains:\n  d:\n    " + std::string(line) + "\n" + std::string(kLimits));
  };
  EXPECT_EQ(errors("shard_by: tenant"), "");
  EXPECT_EQ(errors("shard_by: tenent"),
            "3: shard_by: no limit of the domain has \"tenent\" in its key (did you mean tenant?)\n");
  EXPECT_EQ(errors("shard_by: region"), "3: shard_by: no limit of the domain has \"region\" in its key\n");
  EXPECT_NE(errors("shard_by: [a]"), "");
  EXPECT_EQ(errors("shard_by: \"\""), "3: shard_by is empty\n");
  EXPECT_NE(errors("shardby: tenant").find("shard_by"), std::string::npos);
}

TEST(Reader, Rates) {
  EXPECT_EQ(FullErrors("name: a, rate: 0"), "");
  EXPECT_EQ(FullErrors("name: a, rate: unlimited"), "");
  EXPECT_EQ(FullErrors("name: a,\nrate: 0/min"), "3: rate: \"0/min\" has count 0: write 0 to deny always\n");
  EXPECT_EQ(FullErrors("name: a,\nrate: 5/0s"), "3: rate: \"0s\" is no time at all: more than 0 is needed\n");
  EXPECT_EQ(FullErrors("name: a,\nrate: -1/min"), "3: rate: \"-1\" is no whole number\n");
  EXPECT_EQ(FullErrors("name: a,\nrate: .nan"),
            "3: rate: \".nan\" is no rate: COUNT/PERIOD, e.g. 100/min; 0; or unlimited\n");
  EXPECT_EQ(FullErrors("name: a,\nrate: "), "3: rate is a rate, not nothing\n");
  EXPECT_EQ(FullErrors("name: a,\nrate: 5"),
            "3: the rate 5 needs a period, e.g. 5/min (a count alone goes with calendar)\n");
  EXPECT_EQ(FullErrors("name: a,\nrate: 5/min,\ncalendar: month"),
            "3: with calendar the rate is a count alone, e.g. 1000\n");
  EXPECT_EQ(FullErrors("name: a, rate: 5,\nalgorithm: token_bucket,\ncalendar: month"),
            "4: calendar goes with algorithm fixed_window only\n");
  EXPECT_EQ(FullErrors("name: a, rate: 5, calendar: month,\ntimezone: Europe/Berln"),
            "3: unknown time zone \"Europe/Berln\" (did you mean Europe/Berlin?)\n");
  EXPECT_EQ(FullErrors("name: a, rate: 5/s, from: first_request"), "");
  EXPECT_EQ(FullErrors("name: a, rate: 5/s, from: epoch, algorithm: fixed_window"), "");
  EXPECT_EQ(FullErrors("name: a, rate: 5/s,\nfrom: epoch, algorithm: sliding_log"),
            "3: from goes with algorithm fixed_window only\n");
  // What cannot be exact: the line of the rate.
  const std::string inexact = FullErrors("name: a,\nrate: 4503599627370496/us");
  EXPECT_EQ(inexact.substr(0, 18), "3: the limit \"a\": ") << inexact;
  EXPECT_EQ(FullErrors("rate: 1/s"), "1: a limit needs name\n");
}

TEST(Reader, PermitsAreReadCheckedAndRefused) {
  EXPECT_EQ(FullErrors("name: a,\npermits: 5,\nlease: 30s"),
            "3: the limit \"a\" counts permits, which this engine cannot hold yet\n");
  EXPECT_EQ(FullErrors("name: a,\npermits: 0"), "3: permits is 1 to 2147483647, not 0\n");
  EXPECT_EQ(FullErrors("name: a, permits: 5,\nlease: 99ms"), "3: lease is 100ms to 1d, not 99ms\n");
  EXPECT_EQ(FullErrors("name: a, permits: 5,\nlease: 25h"), "3: lease is 100ms to 1d, not 25h\n");
  EXPECT_EQ(FullErrors("name: a, permits: 5,\nburst: 5"), "3: burst goes with a rate, not with permits\n");
  EXPECT_EQ(FullErrors("name: a, permits: 5,\nreplicas: 6"), "3: replicas is 0 to 5, not 6\n");
  EXPECT_EQ(FullErrors("name: a, rate: 1/s,\nstrict: true"), "3: strict goes with permits\n");
  EXPECT_EQ(FullErrors("name: a, rate: 1/s,\nreplicas: 1"), "3: replicas goes with permits\n");
  BuildOptions options;
  options.permits = true;
  Diagnostics diagnostics;
  const auto policy =
      ReadPolicy("domains: {d: {limits: [{name: a, permits: 5, overrides: [{match: {x: y}, permits: 7}]}]}}",
                 "p.yaml", options, diagnostics);
  ASSERT_NE(policy, nullptr) << diagnostics.Text();
  EXPECT_EQ(policy->limits()[0]->params.algorithm, core::Algorithm::kPermits);
  EXPECT_EQ(policy->limits()[0]->params.period, Seconds(30));
  EXPECT_EQ(policy->limits()[1]->params.capacity, 7);
  const auto strict = ReadPolicy("domains: {d: {limits: [{name: a, permits: 5, strict: true, replicas: 1}]}}",
                                 "p.yaml", options, diagnostics);
  ASSERT_NE(strict, nullptr) << diagnostics.Text();
  EXPECT_TRUE(strict->limits()[0]->strict);
  EXPECT_EQ(strict->limits()[0]->replicas, 1);
  EXPECT_EQ(strict->limits()[0]->on_failure, core::OnFailure::kDeny);
  const auto replicas = ReadPolicy("domains: {d: {limits: [{name: a, permits: 5, replicas: 1}]}}", "p.yaml",
                                   options, diagnostics);
  ASSERT_NE(replicas, nullptr) << diagnostics.Text();
  EXPECT_EQ(replicas->limits()[0]->on_failure, core::OnFailure::kDeny);
}

TEST(Reader, WhatTheEngineCannotHoldIsRefusedWithItsLine) {
  BuildOptions options;
  options.can_hold = [](const core::LimitParams& params) -> Result<void> {
    if (params.algorithm == core::Algorithm::kSlidingLog) return Invalid("no logs here");
    return {};
  };
  EXPECT_EQ(
      ErrorsOf("domains:\n d:\n  limits:\n  - name: a\n    algorithm: sliding_log\n    rate: 1/s\n", options),
      "6: the limit \"a\": no logs here\n");
}

TEST(Reader, NamesAndDuplicates) {
  EXPECT_EQ(ErrorsOf("domains:\n  d:\n    limits:\n    - {name: a, rate: 1/s}\n    - {name: a, rate: 1/s}\n"),
            "5: the name \"a\" is taken by the limit at line 4\n");
  EXPECT_EQ(ErrorsOf("domains:\n  d: {limits: []}\n  d: {limits: []}\n"),
            "3: \"d\" stands twice, first in line 2\n");
  EXPECT_EQ(ErrorsOf("domains:\n  a b: {limits: []}\n"),
            "2: the domain's name \"a b\" is not 1 to 64 of A-Z a-z 0-9 . _ -\n");
  EXPECT_EQ(FullErrors("name: " + std::string(65, 'x') + ", rate: 1/s").substr(0, 12), "2: the name ");
  EXPECT_EQ(FullErrors("name: " + std::string(64, 'x') + ", rate: 1/s"), "");
  EXPECT_EQ(ErrorsOf("revision: 0\n"), "1: revision is 1 to 4503599627370496, not 0\n");
}

TEST(Reader, Overrides) {
  EXPECT_EQ(LimitErrors("overrides: [{rate: 1/s}]"), "2: an override needs match\n");
  EXPECT_EQ(LimitErrors("overrides: [{match: {}, rate: 1/s}]"), "2: an override needs a match\n");
  EXPECT_EQ(LimitErrors("overrides: [{match: {a: b}}]"),
            "2: an override changes rate, burst or permits, and this one changes nothing\n");
  EXPECT_EQ(LimitErrors("overrides: [{match: {a: b}, permits: 3}]"),
            "2: the limit has a rate, so its override has one too, not permits\n");
  EXPECT_EQ(LimitErrors("overrides: {a: b}"), "2: overrides is a list, not a mapping\n");
}

TEST(Reader, AllErrorsAtOnceUpToABound) {
  EXPECT_EQ(ErrorsOf(R"(revison: 1
domains:
  d:
    limits:
    - {name: a, rate: 1/sec}
    - name: b
      rate: 1/s
      match: {x: {cidr: nope}}
    - {name: c, rate: 5}
    - {name: d, rate: 1/s, burst: x}
)"),
            "1: unknown key \"revison\" in the file (did you mean revision?)\n"
            "5: rate: unknown unit \"sec\" (did you mean s?)\n"
            "8: \"nope\" is no network (e.g. 10.0.0.0/8 or 2001:db8::/32)\n"
            "9: the rate 5 needs a period, e.g. 5/min (a count alone goes with calendar)\n"
            "10: burst: \"x\" is no whole number\n");
  std::string many = "domains:\n  d:\n    limits:\n";
  for (int i = 0; i < 30; ++i) many += "    - {rate: x}\n";
  Diagnostics diagnostics;
  EXPECT_EQ(ReadPolicy(many, "p.yaml", {}, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.errors().size(), 20u);
  EXPECT_EQ(diagnostics.total(), 60u);
  EXPECT_TRUE(diagnostics.Text().ends_with("and 40 more\n"));
}

TEST(Reader, OtherProjectsShapesAreRefusedByName) {
  EXPECT_EQ(ErrorsOf("domain: d\ndescriptors:\n- key: a\n"),
            "1: this is a policy of envoyproxy/ratelimit, a shape that is not read yet\n");
  EXPECT_EQ(ErrorsOf("- namespace: n\n  max_value: 1\n  seconds: 1\n"),
            "1: this is a policy of limitador, a shape that is not read yet\n");
  EXPECT_EQ(ErrorsOf("- a\n"), "1: the file is a mapping, not a list\n");
}

TEST(Yaml, BrokenTextNamesItsLine) {
  EXPECT_EQ(ErrorsOf(""), "0: the file is empty\n");
  EXPECT_EQ(ErrorsOf("# nothing\n"), "0: the file is empty\n");
  EXPECT_EQ(ErrorsOf("a: b\n  c: d\n").substr(0, 11), "2: no YAML:");
  EXPECT_EQ(ErrorsOf("revision: 1\ndomains: {").substr(0, 11), "2: no YAML:");
  EXPECT_EQ(ErrorsOf("revision: 1\n\x04junk"), "2: a byte that is no UTF-8 text, or a control character\n");
  EXPECT_EQ(ErrorsOf("revision: 1\n\xff"), "2: a byte that is no UTF-8 text, or a control character\n");
  EXPECT_EQ(ErrorsOf("revision: 1\n---\nrevision: 2\n"), "2: a second document in one file\n");
  EXPECT_EQ(ErrorsOf("revision: !!int 1\n"), "1: the tag \"tag:yaml.org,2002:int\" is not taken\n");
  EXPECT_EQ(ErrorsOf("revision: !!str 1\n"), "");
  EXPECT_EQ(ErrorsOf("revision: *x\n").substr(0, 11), "1: no YAML:");
  EXPECT_EQ(ErrorsOf(std::string(kMaxYamlBytes + 1, ' ')), "0: the file is larger than 16 MiB\n");
}

TEST(Yaml, AliasesAreFollowedWithinBounds) {
  EXPECT_EQ(ErrorsOf("domains:\n  a: &x {limits: [{name: l, rate: 1/s}]}\n  b: *x\n"), "");
  EXPECT_EQ(ErrorsOf("a: &x [*x]\n"), "1: an alias that stands inside what it names\n");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", " : "") + before;
    bomb += "]\n";
  }
  EXPECT_EQ(ErrorsOf(bomb), "7: aliases that stand for more than 4000000 values\n");
  EXPECT_EQ(ErrorsOf("a: " + std::string(100'000, '[')).substr(0, 12), "1: more than");
  std::string nested = "a0: &a0 [x]\n";
  for (int i = 1; i < 60; ++i) {
    nested += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  EXPECT_EQ(ErrorsOf(nested).substr(3), " more than 40 levels deep\n");
}

}  // namespace
}  // namespace penstock::policy
