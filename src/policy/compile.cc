// From a definition to an immutable Policy; everything that a definition can get wrong is found here.
#include <algorithm>
#include <unordered_map>

#include "base/bytes.h"
#include "policy/domain.h"
#include "policy/identity.h"
#include "policy/policy.h"

namespace penstock::policy {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr Micros kMinLease = Millis(100);
constexpr Micros kMaxLease = Seconds(24 * 3600);

}  // namespace

bool IsValidName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

class Compiler {
 public:
  Compiler(const PolicyDefinition& definition, const BuildOptions& options, Diagnostics& diagnostics)
      : definition_(definition), options_(options), diagnostics_(diagnostics) {}

  std::unique_ptr<Policy> Run();

 private:
  // One domain in the making.
  struct Work {
    const DomainDefinition& definition;
    Domain& domain;
    std::unordered_map<std::string, uint32_t> attributes;
    std::vector<std::string> attribute_names;

    uint32_t Number(const std::string& attribute) {
      const auto [at, added] = attributes.emplace(attribute, static_cast<uint32_t>(attribute_names.size()));
      if (added) attribute_names.push_back(attribute);
      return at->second;
    }
  };

  void CompileDomain(const DomainDefinition& definition, Policy& policy);
  void CompileLimit(const LimitDefinition& limit, Work& work);
  void CompileOverrides(const LimitDefinition& limit, const core::Limit& base, LimitRule& rule, Work& work);
  bool CheckLimit(const LimitDefinition& limit, const std::string& file);
  bool CheckPermits(const LimitDefinition& limit, const std::string& file);
  bool CheckKey(const LimitDefinition& limit, const std::string& file);
  bool CheckAttribute(const std::string& attribute, int line, const std::string& file);
  std::optional<core::LimitParams> CompileParams(const LimitDefinition& limit, int line,
                                                 const std::string& file);
  std::span<const CompiledCondition> CompileMatch(const std::vector<Condition>& match, Work& work);

  const PolicyDefinition& definition_;
  const BuildOptions& options_;
  Diagnostics& diagnostics_;
};

std::unique_ptr<Policy> Compiler::Run() {
  const size_t errors_before = diagnostics_.total();
  auto policy = std::make_unique<Policy>();
  policy->revision_ = definition_.revision;
  std::unordered_map<std::string, const DomainDefinition*> seen;
  std::vector<std::string> names;
  for (const DomainDefinition& domain : definition_.domains) {
    const auto [at, added] = seen.emplace(domain.name, &domain);
    if (!added) {
      const DomainDefinition& first = *at->second;
      std::string where = first.file;
      if (first.line > 0) where += ":" + std::to_string(first.line);
      diagnostics_.Error(domain.file, domain.line,
                         "the domain " + Quoted(domain.name) + " stands already in " + where +
                             ": a domain stands in one file, once");
      continue;
    }
    if (!IsValidName(domain.name)) {
      diagnostics_.Error(domain.file, domain.line,
                         "the domain's name " + Quoted(domain.name) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
      continue;
    }
    names.push_back(domain.name);
    CompileDomain(domain, *policy);
  }
  if (diagnostics_.total() != errors_before) return nullptr;
  policy->domain_names_.Build(std::move(names));
  for (const auto& domain : policy->domains_) {
    for (core::Limit& limit : domain->limits) policy->limit_pointers_.push_back(&limit);
  }
  return policy;
}

void Compiler::CompileDomain(const DomainDefinition& definition, Policy& policy) {
  Domain& domain = *policy.domains_.emplace_back(std::make_unique<Domain>());
  domain.name = definition.name;
  Work work{definition, domain, {}, {}};
  std::unordered_map<std::string_view, int> names;
  for (const LimitDefinition& limit : definition.limits) {
    const auto [at, added] = names.emplace(limit.name, limit.line);
    if (!added && !limit.name.empty()) {
      diagnostics_.Error(
          definition.file, limit.line,
          "the name " + Quoted(limit.name) + " is taken by the limit at line " + std::to_string(at->second));
      continue;
    }
    if (!limit.broken) CompileLimit(limit, work);
  }
  domain.attributes.Build(std::move(work.attribute_names));
  std::vector<RuleIndex::Conditions> rules;
  rules.reserve(domain.rules.size());
  for (const LimitRule& rule : domain.rules) rules.emplace_back(rule.conditions, rule.condition_count);
  domain.index.Build(rules);
}

bool Compiler::CheckAttribute(const std::string& attribute, int line, const std::string& file) {
  if (!attribute.empty() && attribute.size() <= Policy::kMaxAttributeNameBytes) return true;
  diagnostics_.Error(file, line, "the attribute's name " + Quoted(attribute) + " is not 1 to 256 bytes long");
  return false;
}

bool Compiler::CheckKey(const LimitDefinition& limit, const std::string& file) {
  bool good = true;
  if (limit.key.size() > Policy::kMaxKeyParts) {
    diagnostics_.Error(file, limit.line, "a key has at most 16 parts");
    good = false;
  }
  for (size_t i = 0; i < limit.key.size(); ++i) {
    const KeyPart& part = limit.key[i];
    good &= CheckAttribute(part.attribute, part.line, file);
    for (size_t j = 0; j < i; ++j) {
      if (limit.key[j].attribute != part.attribute) continue;
      diagnostics_.Error(file, part.line,
                         "the attribute " + Quoted(part.attribute) + " stands twice in the key");
      good = false;
      break;
    }
    if (part.address && (part.mask4 < 0 || part.mask4 > 32 || part.mask6 < 0 || part.mask6 > 128)) {
      diagnostics_.Error(file, part.line, "mask4 is 0 to 32 and mask6 is 0 to 128");
      good = false;
    }
  }
  return good;
}

bool Compiler::CheckPermits(const LimitDefinition& limit, const std::string& file) {
  const auto fail = [&](std::string message) {
    diagnostics_.Error(file, limit.line, std::move(message));
    return false;
  };
  if (*limit.permits < 1 || *limit.permits > kMaxCost) return fail("permits is 1 to 2147483647");
  if (limit.burst) return fail("burst goes with a rate, not with permits");
  if (limit.window != core::WindowKind::kEpoch)
    return fail("calendar and from go with a rate, not with permits");
  if (limit.algorithm != core::Algorithm::kTokenBucket && limit.algorithm != core::Algorithm::kPermits) {
    return fail("algorithm goes with a rate, not with permits");
  }
  const Micros lease = limit.lease.value_or(Seconds(30));
  if (lease < kMinLease || lease > kMaxLease) return fail("lease is 100ms to 24h");
  if (!options_.permits) {
    return fail("the limit " + Quoted(limit.name) + " counts permits, which this engine cannot hold yet");
  }
  return true;
}

bool Compiler::CheckLimit(const LimitDefinition& limit, const std::string& file) {
  const auto fail = [&](std::string message) {
    diagnostics_.Error(file, limit.line, std::move(message));
    return false;
  };
  if (limit.name.empty()) return fail("a limit needs a name");
  if (!IsValidName(limit.name)) {
    return fail("the name " + Quoted(limit.name) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  if (!IsValidName(limit.unit)) {
    return fail("the unit " + Quoted(limit.unit) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  if (limit.match.size() > Policy::kMaxConditions) return fail("a match has at most 32 attributes");
  bool good = CheckKey(limit, file);
  for (const Condition& condition : limit.match)
    good &= CheckAttribute(condition.attribute, condition.line, file);
  if (limit.rate && limit.permits) return fail("a limit has a rate or permits, not both");
  if (!limit.rate && !limit.permits)
    return fail("the limit " + Quoted(limit.name) + " needs a rate or permits");
  if (limit.permits) return CheckPermits(limit, file) && good;
  if (limit.lease) return fail("lease goes with permits");
  if (limit.window != core::WindowKind::kEpoch && limit.algorithm != core::Algorithm::kFixedWindow) {
    return fail(std::string(core::IsCalendar(limit.window) ? "calendar" : "from") +
                " goes with algorithm fixed_window only");
  }
  if (!limit.timezone.empty() && !core::IsCalendar(limit.window))
    return fail("timezone goes with calendar only");
  return good;
}

std::optional<core::LimitParams> Compiler::CompileParams(const LimitDefinition& limit, int line,
                                                         const std::string& file) {
  const auto fail = [&](std::string message) {
    diagnostics_.Error(file, line, std::move(message));
    return std::nullopt;
  };
  core::LimitParams params;
  if (limit.permits) {
    params.algorithm = core::Algorithm::kPermits;
    params.capacity = *limit.permits;
    params.count = *limit.permits;
    params.period = limit.lease.value_or(Seconds(30));
  } else {
    const Rate& rate = *limit.rate;
    const bool calendar = core::IsCalendar(limit.window);
    if (rate.kind == core::RateKind::kFinite && calendar != (rate.period.count == 0)) {
      return fail(calendar ? "with calendar the rate is a count alone, e.g. 1000"
                           : "the rate " + FormatRate(rate) + " needs a period, e.g. " + FormatRate(rate) +
                                 "/min (a count alone goes with calendar)");
    }
    if (limit.burst && limit.algorithm != core::Algorithm::kTokenBucket) {
      return fail("burst goes with algorithm token_bucket only");
    }
    core::RateSpec spec;
    spec.algorithm = limit.algorithm;
    spec.window = limit.window;
    spec.kind = rate.kind;
    spec.count = rate.count;
    spec.period = rate.period;
    if (rate.kind == core::RateKind::kFinite) spec.burst = limit.burst;
    const auto compiled = core::CompileRate(spec);
    if (!compiled) return fail("the limit " + Quoted(limit.name) + ": " + compiled.error().message);
    params = *compiled;
  }
  if (options_.can_hold) {
    const auto held = options_.can_hold(params);
    if (!held) return fail("the limit " + Quoted(limit.name) + ": " + held.error().message);
  }
  return params;
}

std::span<const CompiledCondition> Compiler::CompileMatch(const std::vector<Condition>& match, Work& work) {
  auto& out = work.domain.conditions.emplace_back();
  for (const Condition& condition : match) {
    int line = 0;
    auto compiled = CompiledMatcher::Compile(condition.matcher, line);
    if (!compiled) {
      diagnostics_.Error(work.definition.file, line, compiled.error().message);
      continue;
    }
    const CompiledMatcher& matcher = work.domain.matchers.emplace_back(std::move(*compiled));
    CompiledCondition& made = out.emplace_back();
    made.attribute = work.Number(condition.attribute);
    if (matcher.exact_values().size() == 1) {
      made.exact = matcher.exact_values()[0];
    } else {
      made.matcher = &matcher;
    }
  }
  return out;
}

void Compiler::CompileLimit(const LimitDefinition& limit, Work& work) {
  const std::string& file = work.definition.file;
  if (!CheckLimit(limit, file)) return;
  const auto params = CompileParams(limit, limit.line, file);
  if (!params) return;

  core::Limit& made = work.domain.limits.emplace_back();
  made.domain = work.definition.name;
  made.name = limit.name;
  made.unit = limit.unit;
  made.identity = LimitIdentity(made.domain, limit, "");
  for (const KeyPart& part : limit.key) made.key_names.push_back(part.attribute);
  made.params = *params;
  if (core::IsCalendar(limit.window)) made.timezone = limit.timezone.empty() ? "UTC" : limit.timezone;
  made.shadow = limit.shadow;
  made.on_failure = limit.on_failure.value_or(definition_.on_failure);

  LimitRule rule;
  rule.limit = &made;
  const auto conditions = CompileMatch(limit.match, work);
  rule.conditions = conditions.data();
  rule.condition_count = static_cast<uint32_t>(conditions.size());
  auto& keys = work.domain.keys.emplace_back();
  size_t addresses = 0;
  for (const KeyPart& part : limit.key) {
    keys.push_back({work.Number(part.attribute), part.address, static_cast<uint8_t>(part.mask4),
                    static_cast<uint8_t>(part.mask6)});
    if (part.address) ++addresses;
  }
  work.domain.max_address_parts = std::max(work.domain.max_address_parts, addresses);
  rule.keys = keys.data();
  rule.key_count = static_cast<uint32_t>(keys.size());
  if (!limit.overrides.empty()) CompileOverrides(limit, made, rule, work);
  work.domain.rules.push_back(rule);
}

void Compiler::CompileOverrides(const LimitDefinition& limit, const core::Limit& base, LimitRule& rule,
                                Work& work) {
  const std::string& file = work.definition.file;
  OverrideSet& set = work.domain.overrides.emplace_back();
  std::vector<RuleIndex::Conditions> conditions;
  for (const OverrideDefinition& change : limit.overrides) {
    const auto fail = [&](std::string message) { diagnostics_.Error(file, change.line, std::move(message)); };
    if (change.match.empty() || change.match.size() > Policy::kMaxConditions) {
      fail("an override needs a match of 1 to 32 attributes");
      continue;
    }
    if (change.permits && !limit.permits) {
      fail("the limit has a rate, so its override has one too, not permits");
      continue;
    }
    if (limit.permits && (change.rate || change.burst)) {
      fail("the limit has permits, so its override has permits too, not a rate");
      continue;
    }
    if (!change.rate && !change.burst && !change.permits) {
      fail("an override changes rate, burst or permits, and this one changes nothing");
      continue;
    }
    // What an override does not say stays as the limit says it.
    LimitDefinition effective = limit;
    if (change.rate) effective.rate = change.rate;
    if (change.burst) effective.burst = change.burst;
    if (change.permits) effective.permits = change.permits;
    const auto params = CompileParams(effective, change.line, file);
    bool good = true;
    for (const Condition& condition : change.match)
      good &= CheckAttribute(condition.attribute, condition.line, file);
    const auto compiled = CompileMatch(change.match, work);
    if (!params || !good) continue;

    core::Limit& made = work.domain.limits.emplace_back();
    made.domain = base.domain;
    made.name = base.name;
    made.unit = base.unit;
    made.identity = SharesIdentity(limit, change)
                        ? base.identity
                        : LimitIdentity(base.domain, limit, MatchText(change.match));
    made.key_names = base.key_names;
    made.params = *params;
    made.timezone = base.timezone;
    made.shadow = base.shadow;
    made.on_failure = base.on_failure;
    set.rules.push_back({&made, compiled});
    conditions.push_back(compiled);
  }
  set.index.Build(conditions);
  rule.overrides = &set;
}

Policy::Policy() = default;
Policy::~Policy() = default;

std::unique_ptr<Policy> Policy::Build(const PolicyDefinition& definition, const BuildOptions& options,
                                      Diagnostics& diagnostics) {
  return Compiler(definition, options, diagnostics).Run();
}

}  // namespace penstock::policy
