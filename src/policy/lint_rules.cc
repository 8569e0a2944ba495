#include "policy/lint_rules.h"

#include <algorithm>
#include <optional>
#include <span>

#include "penstock/request.h"
#include "policy/identity.h"
#include "policy/matcher.h"

namespace penstock::policy {
namespace {

// Comparing every override with every other is bounded by this many of them.
constexpr size_t kMaxCompared = 2'000;

// A condition that can be asked, and the values of its equality if it is one.
struct Probe {
  const Condition* condition;
  CompiledMatcher matcher;
  std::vector<std::string> values;  // empty: no equality
};

void CollectValues(const Matcher& matcher, const CompiledMatcher& whole, std::vector<std::string>& out) {
  if (matcher.kind == MatcherKind::kExact && whole.Holds(matcher.text)) out.push_back(matcher.text);
  for (const Matcher& child : matcher.children) CollectValues(child, whole, out);
}

// Whether only equalities let a value through, so that the values found are all there are.
bool OnlyValues(const Matcher& matcher) {
  const auto only = [](const Matcher& child) { return OnlyValues(child); };
  switch (matcher.kind) {
    case MatcherKind::kExact:
      return true;
    case MatcherKind::kAny:
      return std::all_of(matcher.children.begin(), matcher.children.end(), only);
    case MatcherKind::kAll:
      return std::any_of(matcher.children.begin(), matcher.children.end(), only);
    default:
      return false;
  }
}

struct Probes {
  std::vector<Probe> all;
  bool possible = true;  // false: a condition that no value satisfies

  explicit Probes(const std::vector<Condition>& match) {
    for (const Condition& condition : match) {
      int line = 0;
      auto compiled = CompiledMatcher::Compile(condition.matcher, line);
      if (!compiled) continue;  // cannot be: the policy was compiled
      Probe& probe = all.emplace_back(Probe{&condition, std::move(*compiled), {}});
      if (!OnlyValues(condition.matcher)) continue;
      CollectValues(condition.matcher, probe.matcher, probe.values);
      if (probe.values.empty()) possible = false;
    }
  }

  const Probe* Find(const std::string& attribute) const {
    for (const Probe& probe : all) {
      if (probe.condition->attribute == attribute) return &probe;
    }
    return nullptr;
  }
};

// Whether whatever satisfies `inner` satisfies `outer` too, as far as can be told.
bool Implies(const Probe& inner, const Probe& outer) {
  if (!inner.values.empty()) {
    return std::all_of(inner.values.begin(), inner.values.end(),
                       [&](const std::string& value) { return outer.matcher.Holds(value); });
  }
  return MatchText({inner.condition, 1}) == MatchText({outer.condition, 1});
}

bool Covers(const Probes& outer, const Probes& inner) {
  return std::all_of(outer.all.begin(), outer.all.end(), [&](const Probe& wanted) {
    const Probe* given = inner.Find(wanted.condition->attribute);
    return given != nullptr && Implies(*given, wanted);
  });
}

// Whether no request can satisfy both, as far as can be told.
bool Exclude(const Probes& a, const Probes& b) {
  return std::any_of(a.all.begin(), a.all.end(), [&](const Probe& left) {
    const Probe* right = b.Find(left.condition->attribute);
    if (right == nullptr) return false;
    const auto fails = [](const Probe& values, const Probe& other) {
      return !values.values.empty() &&
             std::none_of(values.values.begin(), values.values.end(),
                          [&](const std::string& value) { return other.matcher.Holds(value); });
    };
    return fails(left, *right) || fails(*right, left);
  });
}

bool OnlyAbsent(const Matcher& matcher) {
  if (matcher.kind != MatcherKind::kNot) return false;
  const Matcher& inner = matcher.children[0];
  return inner.kind == MatcherKind::kGlob && inner.text.find_first_not_of('*') == std::string::npos;
}

std::string At(const OverrideDefinition& change) {
  return change.line > 0 ? "the override in line " + std::to_string(change.line) : "an override";
}

void OverrideWarnings(const LimitDefinition& limit, const Probes& own, std::vector<std::string>& out) {
  std::vector<Probes> earlier;
  const size_t count = std::min(limit.overrides.size(), kMaxCompared);
  earlier.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const OverrideDefinition& change = limit.overrides[i];
    Probes probes(change.match);
    if (!probes.possible)
      out.push_back(At(change) + " never applies: no value satisfies its match");
    else if (Exclude(own, probes))
      out.push_back(At(change) + " never applies: the limit's own match excludes it");
    for (size_t j = 0; j < i; ++j) {
      if (!Covers(earlier[j], probes)) continue;
      out.push_back(At(change) + " never applies: " + At(limit.overrides[j]) +
                    " comes first and takes all of it");
      break;
    }
    for (const Condition& condition : change.match) {
      const bool masked = std::any_of(limit.key.begin(), limit.key.end(), [&](const KeyPart& part) {
        return part.attribute == condition.attribute && part.address && (part.mask4 < 32 || part.mask6 < 128);
      });
      if (masked) {
        out.push_back(At(change) + " can split a bucket: callers in one network of " + condition.attribute +
                      " share it, whether they match or not");
      }
    }
    earlier.push_back(std::move(probes));
  }
}

// Limits whose buckets shard_by does not bring together, though a reader may think so.
void ShardWarnings(const DomainDefinition& domain, const std::string& where, std::vector<std::string>& out) {
  if (domain.shard_by.empty()) return;
  const KeyPart* first = nullptr;
  for (const LimitDefinition& limit : domain.limits) {
    const int at = ShardPart(domain, limit);
    if (at < 0) {
      out.push_back(where + ": the limit " + limit.name + " has not " + domain.shard_by +
                    " in its key; on a Redis cluster it is decided apart from those that have");
      continue;
    }
    const KeyPart& part = limit.key[static_cast<size_t>(at)];
    if (first == nullptr) first = &part;
    if (part.address != first->address || part.mask4 != first->mask4 || part.mask6 != first->mask6) {
      out.push_back(where + ": the limit " + limit.name + " masks " + domain.shard_by +
                    " otherwise than others do; on a Redis cluster it may be decided apart from them");
    }
  }
}

bool Finite(const LimitDefinition& limit) {
  return limit.rate && limit.rate->kind == core::RateKind::kFinite;
}

}  // namespace

std::vector<std::string> LimitWarnings(const LimitDefinition& limit) {
  std::vector<std::string> out;
  const Probes own(limit.match);
  if (!own.possible) out.push_back("never applies: no value satisfies its match");
  for (const Condition& condition : limit.match) {
    const bool in_key = std::any_of(limit.key.begin(), limit.key.end(), [&](const KeyPart& part) {
      return part.attribute == condition.attribute;
    });
    if (in_key && OnlyAbsent(condition.matcher)) {
      out.push_back("never applies: its key needs " + condition.attribute + ", its match wants it absent");
    }
  }
  for (const KeyPart& part : limit.key) {
    if (!part.address) continue;
    if (part.mask4 == 0) out.push_back("mask4 0 puts all IPv4 callers into one bucket");
    if (part.mask6 == 0) out.push_back("mask6 0 puts all IPv6 callers into one bucket");
  }
  if (limit.rate && limit.rate->kind == core::RateKind::kZero && limit.match.empty() && !limit.shadow) {
    out.push_back(limit.key.empty() ? "rate 0 without a match denies every request of the domain"
                                    : "rate 0 without a match denies every request that has its key");
  }
  if (limit.rate && limit.rate->kind == core::RateKind::kUnlimited && limit.overrides.empty()) {
    out.push_back("rate unlimited without overrides limits nothing");
  }
  if (limit.burst && limit.rate && !Finite(limit)) out.push_back("burst means nothing beside this rate");
  if (limit.permits) out.push_back("permits do not apply at /auth, where nobody would give them back");
  OverrideWarnings(limit, own, out);
  return out;
}

std::vector<std::string> DomainWarnings(const DomainDefinition& domain) {
  std::vector<std::string> out;
  const std::string where = "the domain " + domain.name;
  if (domain.limits.empty()) out.push_back(where + " has no limits: it allows everything");
  const auto always =
      static_cast<size_t>(std::count_if(domain.limits.begin(), domain.limits.end(),
                                        [](const LimitDefinition& limit) { return limit.match.empty(); }));
  if (always > kMaxLimitsPerRequest) {
    out.push_back(where + " has " + std::to_string(always) +
                  " limits without a match; a request that more than 32 apply to is refused as an error");
  }
  ShardWarnings(domain, where, out);
  return out;
}

}  // namespace penstock::policy
