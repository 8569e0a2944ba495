// Random policies, asked at random, against a matcher that scans all limits and reads the definition itself.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/random.h"
#include "policy/identity.h"
#include "policy/policy.h"

namespace penstock::policy {
namespace {

constexpr const char* kAttributes[] = {"user", "path", "method", "ip", "a_b", "a,b",
                                       "plan", "x1",   "x2",     "x3", "x4"};
constexpr const char* kValues[] = {"",
                                   "a",
                                   "b",
                                   "ab",
                                   "abc",
                                   "42",
                                   "GET",
                                   "10.0.0.1",
                                   "*",
                                   "10.9.9.9",
                                   "a,b",
                                   "bb",
                                   "::ffff:10.0.0.1",
                                   "10.1.0.0",
                                   "2001:db8::1"};
constexpr const char* kGlobs[] = {"*", "a*", "*b", "a*b*", "*.*", "10.*"};

// Written anew for the test: recursion instead of the loop under test.
bool NaiveGlob(const char* pattern, const char* text) {
  if (*pattern == '\0') return *text == '\0';
  if (*pattern == '*') return NaiveGlob(pattern + 1, text) || (*text != '\0' && NaiveGlob(pattern, text + 1));
  return *pattern == *text && NaiveGlob(pattern + 1, text + 1);
}

const std::string* Value(const std::vector<std::pair<std::string, std::string>>& request,
                         const std::string& name) {
  const std::string* found = nullptr;
  for (const auto& [attribute, value] : request) {
    if (attribute == name) found = &value;
  }
  return found;
}

bool NaiveHolds(const Matcher& matcher, const std::string* value) {
  switch (matcher.kind) {
    case MatcherKind::kExact:
      return value != nullptr && *value == matcher.text;
    case MatcherKind::kGlob:
      return value != nullptr && NaiveGlob(matcher.text.c_str(), value->c_str());
    // The generator makes one expression and one network only.
    case MatcherKind::kRegex:
      return value != nullptr && !value->empty() && value->find_first_not_of("ab") == std::string::npos;
    case MatcherKind::kCidr:
      return value != nullptr && (value->starts_with("10.") || value->starts_with("::ffff:10."));
    case MatcherKind::kAny:
      for (const Matcher& child : matcher.children) {
        if (NaiveHolds(child, value)) return true;
      }
      return false;
    case MatcherKind::kAll:
      for (const Matcher& child : matcher.children) {
        if (!NaiveHolds(child, value)) return false;
      }
      return true;
    case MatcherKind::kNot:
      return value == nullptr || !NaiveHolds(matcher.children[0], value);
  }
  return false;
}

class RandomPolicy {
 public:
  explicit RandomPolicy(uint64_t seed) : random_(seed) {}

  template <size_t N>
  const char* Pick(const char* const (&words)[N]) {
    return words[random_.Below(N)];
  }

  Matcher MakeMatcher(int depth) {
    // Mostly equalities, as in life.
    switch (random_.Below(depth > 2 ? 6 : 10)) {
      case 0:
        return {MatcherKind::kGlob, Pick(kGlobs), {}, 0};
      case 1:
        return {MatcherKind::kRegex, "[ab]+", {}, 0};
      case 2:
        return {MatcherKind::kCidr, "10.0.0.0/8", {}, 0};
      case 6:
        return Nested(MatcherKind::kAny, depth);
      case 7:
        return Nested(MatcherKind::kAll, depth);
      case 8:
        return {MatcherKind::kNot, "", {MakeMatcher(depth + 1)}, 0};
      default:
        return {MatcherKind::kExact, Pick(kValues), {}, 0};
    }
  }

  std::vector<Condition> MakeMatch(size_t most) {
    std::vector<Condition> match;
    for (size_t n = random_.Below(most + 1); n > 0; --n)
      match.push_back({Pick(kAttributes), MakeMatcher(0), 0});
    return match;
  }

  LimitDefinition MakeLimit(size_t number) {
    LimitDefinition limit;
    limit.name = "l" + std::to_string(number);
    limit.rate = Rate{core::RateKind::kFinite, 1, Seconds(1)};
    for (const char* attribute : kAttributes) {
      if (random_.Below(12) == 0) limit.key.push_back({.attribute = attribute});
    }
    limit.match = MakeMatch(3);
    // The rate names the override.
    for (int64_t n = static_cast<int64_t>(random_.Below(4)); n > 0; --n) {
      OverrideDefinition change{MakeMatch(2), Rate{core::RateKind::kFinite, 1 + n, Seconds(1)}, {}, {}, 0};
      if (!change.match.empty()) limit.overrides.push_back(std::move(change));
    }
    return limit;
  }

  std::vector<std::pair<std::string, std::string>> MakeRequest() {
    std::vector<std::pair<std::string, std::string>> request;
    for (size_t n = random_.Below(7); n > 0; --n) request.emplace_back(Pick(kAttributes), Pick(kValues));
    return request;
  }

  Random& random() { return random_; }

 private:
  Matcher Nested(MatcherKind kind, int depth) {
    Matcher matcher{kind, "", {}, 0};
    for (size_t n = 1 + random_.Below(3); n > 0; --n) matcher.children.push_back(MakeMatcher(depth + 1));
    return matcher;
  }

  Random random_;
};

bool NaiveMatch(const std::vector<Condition>& match,
                const std::vector<std::pair<std::string, std::string>>& request) {
  for (const Condition& condition : match) {
    if (!NaiveHolds(condition.matcher, Value(request, condition.attribute))) return false;
  }
  return true;
}

// "name/rate[part,part] …" by scanning.
std::string Naive(const std::vector<LimitDefinition>& limits,
                  const std::vector<std::pair<std::string, std::string>>& request, size_t& count) {
  std::string out;
  count = 0;
  for (const LimitDefinition& limit : limits) {
    bool applies = NaiveMatch(limit.match, request);
    std::string parts;
    for (const KeyPart& part : limit.key) {
      const std::string* value = Value(request, part.attribute);
      if (value == nullptr) applies = false;
      if (value != nullptr) parts += std::to_string(value->size()) + ":" + *value + ",";
    }
    if (!applies) continue;
    int64_t rate = limit.rate->count;
    for (const OverrideDefinition& change : limit.overrides) {
      if (!NaiveMatch(change.match, request)) continue;
      rate = change.rate->count;
      break;
    }
    ++count;
    out += limit.name + "/" + std::to_string(rate) + "[" + parts + "] ";
  }
  return out;
}

std::string Indexed(const Policy& policy, const std::vector<std::pair<std::string, std::string>>& request,
                    MatchScratch& scratch) {
  std::vector<Attribute> attributes;
  for (const auto& [name, value] : request) attributes.push_back({name, value});
  const auto matched = policy.Match(*policy.FindDomain("d"), attributes, scratch);
  if (!matched) return matched.error().message;
  std::string out;
  for (const Match& match : scratch.matches) {
    out += match.limit->name + "/" + std::to_string(match.limit->params.count) + "[";
    for (uint32_t i = 0; i < match.part_count; ++i) {
      const std::string_view part = scratch.parts[match.first_part + i];
      out += std::to_string(part.size()) + ":" + std::string(part) + ",";
    }
    out += "] ";
  }
  return out;
}

TEST(RandomPolicies, IndexAndScanAgree) {
  const char* given = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
  std::cout << "PENSTOCK_SEED=" << seed << "\n";
  RandomPolicy maker(seed);
  MatchScratch scratch;
  size_t refused = 0;
  size_t matched = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<LimitDefinition> limits;
    const size_t most = round % 3 == 0 ? 200 : 20;
    for (size_t n = 1 + maker.random().Below(most); n > 0; --n)
      limits.push_back(maker.MakeLimit(limits.size()));
    PolicyDefinition definition;
    definition.domains.push_back({"d", limits, "random", 0});
    Diagnostics diagnostics;
    const auto policy = Policy::Build(definition, {}, diagnostics);
    ASSERT_NE(policy, nullptr) << diagnostics.Text();
    for (int i = 0; i < 200; ++i) {
      const auto request = maker.MakeRequest();
      size_t count = 0;
      std::string want = Naive(limits, request, count);
      if (count > kMaxLimitsPerRequest) {
        want = "more than 32 limits match one request";
        ++refused;
      }
      matched += count;
      ASSERT_EQ(Indexed(*policy, request, scratch), want) << "round " << round << " request " << i;
    }
  }
  // The test has seen both sides.
  EXPECT_GT(refused, 0u);
  EXPECT_GT(matched, 10'000u);
}

}  // namespace
}  // namespace penstock::policy
