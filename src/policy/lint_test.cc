#include "policy/lint.h"

#include <gtest/gtest.h>

#include "policy/reader.h"

namespace penstock::policy {
namespace {

PolicyDefinition Define(const std::string& text) {
  Diagnostics diagnostics;
  auto file = ReadPolicyText(text, "p.yaml", diagnostics);
  EXPECT_TRUE(file && diagnostics.ok()) << diagnostics.Text();
  PolicyDefinition out;
  out.revision = file->revision;
  out.domains = std::move(file->domains);
  return out;
}

LintReport LintOf(const std::string& text, const PolicyDefinition* before = nullptr) {
  const PolicyDefinition definition = Define(text);
  BuildOptions options;
  options.permits = true;
  Diagnostics diagnostics;
  const auto policy = Policy::Build(definition, options, diagnostics);
  EXPECT_NE(policy, nullptr) << diagnostics.Text();
  return Lint(definition, *policy, before);
}

std::string Limits(const std::string& limits) { return "domains: {d: {limits: [\n" + limits + "]}}\n"; }

// All warnings of the only limit.
std::string Warnings(const std::string& limit) {
  const LintReport report = LintOf(Limits("{name: a, " + limit + "}"));
  EXPECT_EQ(report.HasFindings(), !report.limits.at(0).warnings.empty());
  std::string out;
  for (const std::string& warning : report.limits.at(0).warnings) out += warning + "\n";
  return out;
}

TEST(Lint, PlainWords) {
  const LintReport report = LintOf(R"(revision: 3
domains:
  api:
    limits:
      - name: per-user
        key: [user]
        rate: 100/min
        burst: 20
        overrides:
          - {match: {user: "partner-*"}, rate: 1000/min}
          - {match: {plan: [gold, silver]}, rate: unlimited}
      - {name: login, key: [{ip: {mask6: 64}}], match: {path: {not: /x}}, rate: 5/min, algorithm: sliding_window}
      - {name: month, rate: 1000, calendar: month, timezone: Europe/Berlin, shadow: true, unit: tokens}
      - {name: log, key: [a, b], rate: 7/10s, algorithm: sliding_log, on_failure: deny}
)");
  EXPECT_EQ(LintText(report), R"(revision 3
api/per-user (p.yaml:5)
  counts      requests, one bucket per user
  applies to  every request that has user
  rate        100 per 1min, a token bucket with a burst of 20
  exactly     c=1 drains each tick of 1us, one costs p=600000, capacity 12000000
  at worst    at most 120 in any 1min (burst + rate * (time + 1us))
  engine down local: this node's share
  override    requests with user like "partner-*"
    rate        1000 per 1min, a token bucket with a burst of 20
    exactly     c=1 drains each tick of 1us, one costs p=60000, capacity 1200000
    counted in  the limit's buckets
  override    requests with plan one of "gold", "silver"
    rate        unlimited: allows always and stores nothing
    exactly     nothing to count
    counted in  buckets of its own
api/login (p.yaml:12)
  counts      requests, one bucket per ip (IPv4 /32, IPv6 /64)
  applies to  requests with path not ("/x"), that have ip
  rate        5 per 1min, a sliding window of two counters
  exactly     5 a window of 60000000 ticks of 1us
  at worst    at most 5 a window; after a full one the next fills no faster than the rate, so below 10 in any 1min
  engine down local: this node's share
api/month (p.yaml:13) shadow: observed only
  counts      tokens, one bucket for all
  applies to  every request
  rate        1000 per month, months from local midnight, Europe/Berlin
  exactly     1000 by whole microseconds
  at worst    at most 1000 a window, so up to 2000 around the edge of two
  engine down local: this node's share
api/log (p.yaml:14)
  counts      requests, one bucket per a and b
  applies to  every request that has a, b
  rate        7 per 10s, a sliding log of every instant
  exactly     7 by whole microseconds
  at worst    at most 7 in any 10s
  engine down deny: nothing passes
)");
  EXPECT_FALSE(report.HasFindings());
}

TEST(Lint, UnreachableOverrides) {
  EXPECT_EQ(Warnings("rate: 1/s, overrides: [{match: {u: \"a*\"}, rate: 2/s},\n{match: {u: ab}, rate: 3/s}]"),
            "the override in line 3 never applies: the override in line 2 comes first and takes all of it\n");
  EXPECT_EQ(Warnings("rate: 1/s, overrides: [{match: {u: a}, rate: 2/s}, {match: {u: ab}, rate: 3/s}]"), "");
  EXPECT_EQ(
      Warnings(
          "rate: 1/s, overrides: [{match: {u: [b, a]}, rate: 2/s}, {match: {u: [a, b], v: x}, rate: 3/s}]"),
      "the override in line 2 never applies: the override in line 2 comes first and takes all of it\n");
  EXPECT_EQ(Warnings("rate: 1/s, overrides: [{match: {u: a, v: x}, rate: 2/s}, {match: {u: a}, rate: 3/s}]"),
            "");
  EXPECT_EQ(Warnings("rate: 1/s, overrides: [{match: {u: {regex: \"a+\"}}, rate: 2/s}, {match: {u: {regex: "
                     "\"a+\"}}, rate: 3/s}]"),
            "the override in line 2 never applies: the override in line 2 comes first and takes all of it\n");
  EXPECT_EQ(Warnings("rate: 1/s, match: {u: [x, y]}, overrides: [{match: {u: z}, rate: 2/s}]"),
            "the override in line 2 never applies: the limit's own match excludes it\n");
  EXPECT_EQ(
      Warnings("rate: 1/s, match: {u: {cidr: 10.0.0.0/8}}, overrides: [{match: {u: 11.0.0.1}, rate: 2/s}]"),
      "the override in line 2 never applies: the limit's own match excludes it\n");
  EXPECT_EQ(Warnings("rate: 1/s, overrides: [{match: {u: {exact: a, not: a}}, rate: 2/s}]"),
            "the override in line 2 never applies: no value satisfies its match\n");
}

TEST(Lint, LimitsThatCannotBeMeant) {
  EXPECT_EQ(Warnings("rate: 1/s, match: {u: {exact: a, glob: \"b*\"}}"),
            "never applies: no value satisfies its match\n");
  EXPECT_EQ(Warnings("rate: 1/s, key: [u], match: {u: {not: \"*\"}}"),
            "never applies: its key needs u, its match wants it absent\n");
  EXPECT_EQ(Warnings("rate: 1/s, key: [{ip: {mask4: 0}}]"),
            "mask4 0 puts all IPv4 callers into one bucket\n");
  EXPECT_EQ(Warnings("rate: 0"), "rate 0 without a match denies every request of the domain\n");
  EXPECT_EQ(Warnings("rate: 0, match: {u: banned}"), "");
  EXPECT_EQ(Warnings("rate: unlimited"), "rate unlimited without overrides limits nothing\n");
  EXPECT_EQ(Warnings("permits: 5"), "permits do not apply at /auth, where nobody would give them back\n");
  EXPECT_EQ(Warnings("rate: 1/s, key: [{ip: {mask6: 64}}], overrides: [{match: {ip: 10.0.0.1}, rate: 2/s}]"),
            "the override in line 2 can split a bucket: callers in one network of ip share it, whether they "
            "match or not\n");
}

TEST(Lint, Domains) {
  EXPECT_EQ(LintText(LintOf("domains: {d: {limits: []}}\n")),
            "WARNING: the domain d has no limits: it allows everything\n");
  EXPECT_EQ(LintText(LintOf("revision: 1\n")),
            "revision 1\nWARNING: there is no domain: only ad hoc limits are served\n");
  std::string many;
  for (int i = 0; i < 33; ++i) many += "{name: l" + std::to_string(i) + ", rate: 1/s},";
  EXPECT_EQ(LintOf(Limits(many)).warnings.size(), 1u);
}

TEST(Lint, ShardBy) {
  const std::string limits =
      "limits: [{name: a, key: [t, u], rate: 1/s}, {name: b, key: [u], rate: 1/s}, "
      "{name: c, key: [{t: {mask4: 24}}], rate: 1/s}]";
  const std::string plain = "domains: {d: {" + limits + "}}\n";
  const std::string sharded = "domains: {d: {shard_by: t, " + limits + "}}\n";
  EXPECT_TRUE(LintOf(plain).warnings.empty());
  EXPECT_EQ(
      LintOf(sharded).warnings,
      (std::vector<std::string>{"the domain d: the limit b has not t in its key; on a Redis cluster it is "
                                "decided apart from those that have",
                                "the domain d: the limit c masks t otherwise than others do; on a Redis "
                                "cluster it may be decided apart from them"}));
  const PolicyDefinition before = Define(plain);
  EXPECT_EQ(LintOf(sharded, &before).fresh_buckets,
            (std::vector<std::string>{
                "the limit d/a starts fresh buckets where a Redis or Valkey keeps them: shard_by changed",
                "the limit d/c starts fresh buckets where a Redis or Valkey keeps them: shard_by changed"}));
  const PolicyDefinition same = Define(sharded);
  EXPECT_TRUE(LintOf(sharded, &same).fresh_buckets.empty());
}

TEST(Lint, AgainstAnotherPolicy) {
  const PolicyDefinition before = Define(Limits("{name: a, key: [u], rate: 1/s}"));
  const LintReport report = LintOf(Limits("{name: a, key: [v], rate: 1/s}"), &before);
  EXPECT_TRUE(report.HasFindings());
  EXPECT_TRUE(LintText(report).ends_with("CHANGE: the limit d/a starts fresh buckets: key changed\n"));
}

TEST(Lint, Json) {
  EXPECT_EQ(
      LintJson(
          LintOf(Limits("{name: a, rate: 0, key: [u], overrides: [{match: {u: \"\\\"\"}, rate: 1/s}]}"))),
      R"({"ok":true,"revision":0,"limits":[{"domain":"d","name":"a","file":"p.yaml","line":2,"counts":"requests",)"
      R"("buckets":"one bucket per u","applies_to":"every request that has u","rate":"0: denies always",)"
      R"("exactly":"nothing to count","at_worst":"nothing passes","engine_down":"local: this node's share",)"
      R"("shadow":false,"overrides":[{"line":2,"applies_to":"requests with u \"\"\"",)"
      R"("rate":"1 per 1s, a token bucket with a burst of 1",)"
      R"("exactly":"c=1 drains each tick of 1us, one costs p=1000000, capacity 1000000",)"
      R"("counted_in":"the limit's buckets"}],)"
      R"("warnings":["rate 0 without a match denies every request that has its key"]}],)"
      R"("warnings":[],"fresh_buckets":[]})"
      "\n");
  Diagnostics diagnostics;
  diagnostics.Error("f", 3, "wrong \"x\"");
  EXPECT_EQ(ErrorsJson(diagnostics),
            "{\"ok\":false,\"errors\":[{\"file\":\"f\",\"line\":3,\"message\":\"wrong "
            "\\\"x\\\"\"}],\"total\":1}\n");
}

}  // namespace
}  // namespace penstock::policy
