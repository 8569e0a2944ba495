#include "policy/policy.h"

#include <gtest/gtest.h>

#include "policy/identity.h"
#include "policy/matcher.h"

namespace penstock::policy {
namespace {

LimitDefinition MakeLimit(std::string name, std::vector<std::string> key, std::string_view rate) {
  LimitDefinition limit;
  limit.name = std::move(name);
  for (std::string& part : key) limit.key.push_back({.attribute = std::move(part)});
  limit.rate = ParseRate(rate).value();
  return limit;
}

Condition Equals(std::string attribute, std::string value) {
  return {std::move(attribute), {MatcherKind::kExact, std::move(value), {}, 0}, 0};
}
Condition Glob(std::string attribute, std::string value) {
  return {std::move(attribute), {MatcherKind::kGlob, std::move(value), {}, 0}, 0};
}
Condition Not(Condition condition) {
  Matcher inner = std::move(condition.matcher);
  condition.matcher = {MatcherKind::kNot, "", {std::move(inner)}, 0};
  return condition;
}

struct Built {
  std::unique_ptr<Policy> policy;
  Diagnostics diagnostics;

  explicit Built(std::vector<LimitDefinition> limits) {
    PolicyDefinition definition;
    definition.domains.push_back({"api", std::move(limits), "test.yaml", 1});
    policy = Policy::Build(definition, {}, diagnostics);
    EXPECT_EQ(diagnostics.Text(), "");
  }

  // "name(part,part) name …"
  std::string Match(std::vector<Attribute> attributes) {
    MatchScratch scratch;
    const auto matched = policy->Match(*policy->FindDomain("api"), attributes, scratch);
    if (!matched) return matched.error().message;
    std::string out;
    for (const auto& match : scratch.matches) {
      if (!out.empty()) out += ' ';
      out += match.limit->name + '(';
      for (uint32_t i = 0; i < match.part_count; ++i) {
        if (i > 0) out += ',';
        out += scratch.parts[match.first_part + i];
      }
      out += ')';
    }
    return out;
  }
};

TEST(Policy, FindsDomainsByName) {
  Built built({MakeLimit("per-user", {"user"}, "100/min")});
  EXPECT_NE(built.policy->FindDomain("api"), nullptr);
  EXPECT_EQ(built.policy->FindDomain("apo"), nullptr);
  EXPECT_EQ(built.policy->limits().size(), 1u);
}

// Case C35.
TEST(Policy, ALimitWhoseAttributeIsAbsentDoesNotApply) {
  Built built({MakeLimit("user", {"user"}, "100/min"), MakeLimit("pair", {"user", "ip"}, "100/min"),
               MakeLimit("all", {}, "5000/s")});
  EXPECT_EQ(built.Match({{"user", "42"}, {"ip", "10.0.0.1"}}), "user(42) pair(42,10.0.0.1) all()");
  EXPECT_EQ(built.Match({{"user", "42"}}), "user(42) all()");
  EXPECT_EQ(built.Match({{"other", "42"}}), "all()");
  EXPECT_EQ(built.Match({{"user", ""}}), "user() all()");
  EXPECT_EQ(built.Match({{"user", std::string_view()}}), "user() all()");
  EXPECT_EQ(built.Match({{"user", "1"}, {"user", "2"}}), "user(2) all()");
}

TEST(Policy, ExactGlobAndNotInThePolicysOrder) {
  LimitDefinition exact = MakeLimit("exact", {}, "1/s");
  exact.match = {Equals("path", "/login")};
  LimitDefinition glob = MakeLimit("glob", {}, "1/s");
  glob.match = {Glob("path", "/lo*n")};
  LimitDefinition negative = MakeLimit("not", {}, "1/s");
  negative.match = {Not(Equals("path", "/login"))};
  LimitDefinition again = MakeLimit("again", {}, "1/s");
  again.match = {Equals("path", "/login"), Equals("method", "POST")};
  Built built({glob, exact, negative, again});
  EXPECT_EQ(built.Match({{"path", "/login"}}), "glob() exact()");
  EXPECT_EQ(built.Match({{"path", "/login"}, {"method", "POST"}}), "glob() exact() again()");
  EXPECT_EQ(built.Match({{"path", "/logon"}}), "glob() not()");
  EXPECT_EQ(built.Match({}), "not()");
}

// Case C36, and the identities of section 1.
TEST(Policy, OverridesChangeTheParametersAndSometimesTheIdentity) {
  LimitDefinition limit = MakeLimit("per-user", {"user"}, "10/s");
  limit.overrides.push_back({{Equals("user", "partner")}, ParseRate("20/s").value(), {}, {}, 0});
  limit.overrides.push_back({{Equals("plan", "gold")}, ParseRate("30/s").value(), {}, {}, 0});
  limit.overrides.push_back({{Glob("user", "p*")}, ParseRate("0").value(), {}, {}, 0});
  Built built({limit});
  const Domain& domain = *built.policy->FindDomain("api");
  const auto limit_of = [&](std::vector<Attribute> attributes) {
    MatchScratch scratch;
    EXPECT_TRUE(built.policy->Match(domain, attributes, scratch));
    return scratch.matches.at(0).limit;
  };
  const core::Limit* base = limit_of({{"user", "42"}});
  const core::Limit* partner = limit_of({{"user", "partner"}, {"plan", "gold"}});
  const core::Limit* gold = limit_of({{"user", "42"}, {"plan", "gold"}});
  const core::Limit* denied = limit_of({{"user", "pp"}});
  EXPECT_EQ(base->params.capacity, 10);
  EXPECT_EQ(partner->params.capacity, 20);
  EXPECT_EQ(gold->params.capacity, 30);
  EXPECT_EQ(denied->params.kind, core::RateKind::kZero);
  EXPECT_EQ(partner->identity, base->identity);
  EXPECT_EQ(denied->identity, base->identity);
  EXPECT_NE(gold->identity, base->identity);
  EXPECT_EQ(built.policy->limits().size(), 4u);
}

// Far more than one compares one by one: each finds its own, and the first of two wins.
TEST(Policy, ManyLimitsAndManyOverrides) {
  constexpr int kMany = 20'000;
  std::vector<LimitDefinition> limits;
  for (int i = 0; i < kMany; ++i) {
    limits.push_back(MakeLimit("l" + std::to_string(i), {"user"}, "1/s"));
    limits.back().match = {Equals("path", "/p/" + std::to_string(i))};
  }
  limits.push_back(MakeLimit("long", {"user"}, "1/s"));
  limits.back().match = {Equals("path", std::string(1'000, 'x'))};
  limits.push_back(MakeLimit("partners", {"user"}, "1/s"));
  for (int i = 0; i < kMany; ++i) {
    const Rate rate{core::RateKind::kFinite, 2 + i, Seconds(1)};
    limits.back().overrides.push_back({{Equals("user", "u" + std::to_string(i))}, rate, {}, {}, 0});
  }
  limits.back().overrides.push_back({{Glob("user", "*")}, ParseRate("0").value(), {}, {}, 0});
  limits.back().overrides.push_back({{Equals("user", "late")}, ParseRate("9/s").value(), {}, {}, 0});
  Built built(std::move(limits));
  EXPECT_EQ(built.Match({{"path", "/p/0"}, {"user", "a"}}), "l0(a) partners(a)");
  EXPECT_EQ(built.Match({{"path", "/p/19999"}, {"user", "a"}}), "l19999(a) partners(a)");
  EXPECT_EQ(built.Match({{"path", std::string(1'000, 'x')}, {"user", "a"}}), "long(a) partners(a)");
  EXPECT_EQ(built.Match({{"path", "/p/20000"}, {"user", "a"}}), "partners(a)");
  const auto count_for = [&](std::string_view user) {
    MatchScratch scratch;
    const Attribute attributes[] = {{"user", user}};
    EXPECT_TRUE(built.policy->Match(*built.policy->FindDomain("api"), attributes, scratch));
    return scratch.matches.at(0).limit->params.count;
  };
  EXPECT_EQ(count_for("u0"), 2);
  EXPECT_EQ(count_for("u19999"), 20'001);
  EXPECT_EQ(count_for("late"), 0);
}

TEST(Policy, ShardByIsAPlaceInEachKey) {
  PolicyDefinition definition;
  definition.domains.push_back({"api", {}, "test.yaml", 1, "tenant", 2});
  auto& limits = definition.domains[0].limits;
  limits = {MakeLimit("tenant", {"tenant"}, "100/min"), MakeLimit("pair", {"user", "tenant"}, "100/min"),
            MakeLimit("user", {"user"}, "100/min")};
  OverrideDefinition change;
  change.match = {Equals("plan", "gold")};
  change.rate = ParseRate("1/s").value();
  limits[1].overrides.push_back(change);
  Diagnostics diagnostics;
  const auto policy = Policy::Build(definition, {}, diagnostics);
  ASSERT_NE(policy, nullptr) << diagnostics.Text();
  std::string out;
  for (const core::Limit* limit : policy->limits()) {
    out += limit->name + " " + std::to_string(limit->shard_part) + "\n";
  }
  EXPECT_EQ(out, "tenant 0\npair 1\npair 1\nuser -1\n");
  // It is no part of the identity.
  definition.domains[0].shard_by.clear();
  const auto plain = Policy::Build(definition, {}, diagnostics);
  ASSERT_NE(plain, nullptr);
  for (size_t i = 0; i < plain->limits().size(); ++i) {
    EXPECT_EQ(plain->limits()[i]->identity, policy->limits()[i]->identity);
    EXPECT_EQ(plain->limits()[i]->shard_part, -1);
  }
}

TEST(Policy, AddressesAreNormalisedAndMasked) {
  LimitDefinition limit = MakeLimit("login", {}, "5/min");
  limit.key.push_back({.attribute = "ip", .address = true, .mask4 = 32, .mask6 = 64});
  Built built({limit});
  EXPECT_EQ(built.Match({{"ip", "2001:DB8:0:1:2:3:4:5"}}), "login(2001:db8:0:1::)");
  EXPECT_EQ(built.Match({{"ip", "::ffff:192.0.2.1"}}), "login(192.0.2.1)");
  EXPECT_EQ(built.Match({{"ip", "unknown"}}), "login(unknown)");
}

TEST(Policy, ManyMatchesAndLongKeysAreRefused) {
  std::vector<LimitDefinition> limits;
  for (int i = 0; i < 33; ++i)
    limits.push_back(MakeLimit("l" + std::to_string(i), {i < 32 ? "user" : "extra"}, "1/s"));
  Built built(std::move(limits));
  EXPECT_EQ(built.Match({{"user", "1"}, {"extra", "1"}}), "more than 32 limits match one request");
  EXPECT_EQ(built.Match({{"extra", std::string(65'537, 'x')}}), "more than 65536 bytes in one key");
  EXPECT_EQ(built.Match({{"extra", std::string(65'536, 'x')}}).size(), 65'536 + 5u);
  EXPECT_EQ(built.Match(std::vector<Attribute>(65)), "more than 64 attributes");
}

TEST(Policy, ErrorsNameFileAndLine) {
  const auto errors = [](LimitDefinition limit) {
    PolicyDefinition definition;
    limit.line = 7;
    definition.domains.push_back({"api", {std::move(limit)}, "f.yaml", 3});
    Diagnostics diagnostics;
    EXPECT_EQ(Policy::Build(definition, {}, diagnostics), nullptr);
    return diagnostics.Text();
  };
  LimitDefinition limit = MakeLimit("a b", {"user"}, "1/s");
  EXPECT_EQ(errors(limit), "f.yaml:7: the name \"a b\" is not 1 to 64 of A-Z a-z 0-9 . _ -\n");
  limit = MakeLimit("a", {"user", "user"}, "1/s");
  EXPECT_NE(errors(limit).find("the attribute \"user\" stands twice in the key"), std::string::npos);
  limit = MakeLimit("a", {}, "1/s");
  limit.permits = 5;
  EXPECT_EQ(errors(limit), "f.yaml:7: a limit has a rate or permits, not both\n");
  limit.rate.reset();
  EXPECT_EQ(errors(limit), "f.yaml:7: the limit \"a\" counts permits, which this engine cannot hold yet\n");
  limit.permits.reset();
  EXPECT_EQ(errors(limit), "f.yaml:7: the limit \"a\" needs a rate or permits\n");
  limit = MakeLimit("a", {}, "1000");
  EXPECT_NE(errors(limit).find("f.yaml:7: the rate 1000 needs a period"), std::string::npos);
}

// No two identities meet only because of where a separator falls.
TEST(Identity, NeverMeets) {
  const LimitDefinition underscore = MakeLimit("l", {"a_b"}, "1/s");
  const LimitDefinition comma = MakeLimit("l", {"a,b"}, "1/s");
  const LimitDefinition two = MakeLimit("l", {"a", "b"}, "1/s");
  const LimitDefinition swapped = MakeLimit("l", {"b", "a"}, "1/s");
  LimitDefinition masked = MakeLimit("l", {}, "1/s");
  masked.key.push_back({.attribute = "a", .address = true});
  LimitDefinition window = MakeLimit("l", {"a"}, "1/s");
  window.algorithm = core::Algorithm::kFixedWindow;
  LimitDefinition first = window;
  first.window = core::WindowKind::kFirstRequest;
  std::vector<std::string> all;
  for (const LimitDefinition& limit :
       {underscore, comma, two, swapped, masked, window, first, MakeLimit("l", {"a"}, "1/s"),
        MakeLimit("l", {}, "1/s"), MakeLimit("la", {}, "1/s")}) {
    all.push_back(LimitIdentity("d", limit, ""));
    all.push_back(LimitIdentity("d1", limit, ""));
    all.push_back(LimitIdentity("d", limit, "1:x"));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      if (i != j) {
        EXPECT_FALSE(all[i].starts_with(all[j])) << all[i] << " " << all[j];
      }
    }
  }
}

}  // namespace
}  // namespace penstock::policy
