// From a definition to an immutable Policy; everything that a definition can get wrong is found here.
#include <algorithm>
#include <unordered_map>

#include "base/bytes.h"
#include "policy/check.h"
#include "policy/domain.h"
#include "policy/identity.h"
#include "policy/policy.h"

namespace penstock::policy {
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
    std::vector<core::Limit*>& pointers;
    std::unordered_map<std::string, uint32_t> attributes;
    std::vector<std::string> attribute_names;

    uint32_t Number(const std::string& attribute) {
      const auto [at, added] = attributes.emplace(attribute, static_cast<uint32_t>(attribute_names.size()));
      if (added) attribute_names.push_back(attribute);
      return at->second;
    }
  };

  void CompileDomain(const DomainDefinition& definition, Policy& policy);
  void CheckShardBy(const DomainDefinition& definition);
  void CompileLimit(const LimitDefinition& limit, Work& work);
  const RuleSet& CompileOverrides(const LimitDefinition& limit, const core::Limit& base, Work& work);
  std::optional<core::LimitParams> CompileParams(const LimitDefinition& limit, int line,
                                                 const std::string& file);
  std::vector<RuleCondition> CompileMatch(const std::vector<Condition>& match, Work& work);

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
  return policy;
}

void Compiler::CompileDomain(const DomainDefinition& definition, Policy& policy) {
  Domain& domain = *policy.domains_.emplace_back(std::make_unique<Domain>());
  domain.name = definition.name;
  Work work{definition, domain, policy.limit_pointers_, {}, {}};
  size_t overrides = 0;
  for (const LimitDefinition& limit : definition.limits) overrides += limit.overrides.size();
  domain.limits.reserve(definition.limits.size());
  domain.override_limits.reserve(overrides);
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
  CheckShardBy(definition);
  domain.attributes.Build(std::move(work.attribute_names));
  domain.rules.Build();
}

// An attribute that no key has is a slip, and would be one without any sign of it.
void Compiler::CheckShardBy(const DomainDefinition& definition) {
  if (definition.shard_by.empty()) return;
  std::vector<std::string_view> attributes;
  for (const LimitDefinition& limit : definition.limits) {
    if (ShardPart(definition, limit) >= 0 || limit.broken) return;
    for (const KeyPart& part : limit.key) attributes.push_back(part.attribute);
  }
  const std::string_view near = Nearest(definition.shard_by, attributes.data(), attributes.size());
  diagnostics_.Error(definition.file, definition.shard_by_line,
                     "shard_by: no limit of the domain has " + Quoted(definition.shard_by) + " in its key" +
                         (near.empty() ? std::string() : " (did you mean " + std::string(near) + "?)"));
}

std::optional<core::LimitParams> Compiler::CompileParams(const LimitDefinition& limit, int line,
                                                         const std::string& file) {
  const auto fail = [&](std::string message) {
    diagnostics_.Error(file, line, std::move(message));
    return std::nullopt;
  };
  core::RateSpec spec;
  if (limit.permits) {
    spec.algorithm = core::Algorithm::kPermits;
    spec.count = *limit.permits;
    spec.period = limit.lease.value_or(Seconds(30));
  } else {
    const Rate& rate = *limit.rate;
    const bool calendar = core::IsCalendar(limit.window);
    if (rate.kind == core::RateKind::kFinite && calendar != (rate.period.count == 0)) {
      return fail(calendar ? "with calendar the rate is a count alone, e.g. 1000"
                           : "the rate " + FormatRate(rate) + " needs a period, e.g. " + FormatRate(rate) +
                                 "/min (a count alone goes with calendar)");
    }
    spec.algorithm = limit.algorithm;
    spec.window = limit.window;
    spec.kind = rate.kind;
    spec.count = rate.count;
    spec.period = rate.period;
    if (rate.kind == core::RateKind::kFinite) spec.burst = limit.burst;
  }
  const Result<core::LimitParams> compiled = core::CompileRate(spec);
  if (!compiled) return fail("the limit " + Quoted(limit.name) + ": " + compiled.error().message);
  const core::LimitParams& params = *compiled;
  if (options_.can_hold) {
    const auto held = options_.can_hold(params);
    if (!held) return fail("the limit " + Quoted(limit.name) + ": " + held.error().message);
  }
  return params;
}

std::vector<RuleCondition> Compiler::CompileMatch(const std::vector<Condition>& match, Work& work) {
  std::vector<RuleCondition> out;
  for (const Condition& condition : match) {
    int line = 0;
    auto compiled = CompiledMatcher::Compile(condition.matcher, line);
    if (!compiled) {
      diagnostics_.Error(work.definition.file, line, compiled.error().message);
      continue;
    }
    out.push_back(
        {work.Number(condition.attribute), &work.domain.matchers.emplace_back(std::move(*compiled))});
  }
  return out;
}

void Compiler::CompileLimit(const LimitDefinition& limit, Work& work) {
  const std::string& file = work.definition.file;
  if (!CheckLimit(limit, file, options_, diagnostics_)) return;
  const auto params = CompileParams(limit, limit.lines.rate > 0 ? limit.lines.rate : limit.line, file);
  if (!params) return;

  core::Limit& made = work.domain.limits.emplace_back();
  work.pointers.push_back(&made);
  made.domain = work.definition.name;
  made.name = limit.name;
  made.unit = limit.unit;
  made.identity = LimitIdentity(made.domain, limit, "");
  for (const KeyPart& part : limit.key) made.key_names.push_back(part.attribute);
  made.shard_part = ShardPart(work.definition, limit);
  made.params = *params;
  if (core::IsCalendar(limit.window)) made.timezone = limit.timezone.empty() ? "UTC" : limit.timezone;
  made.shadow = limit.shadow;
  made.strict = limit.strict;
  made.replicas = static_cast<uint8_t>(limit.replicas);
  // A share would pass a limit that must not be passed, together with what is held in the store, and no replica has it.
  const bool guarded = limit.strict || limit.replicas > 0;
  const core::OnFailure otherwise = guarded ? core::OnFailure::kDeny : definition_.on_failure;
  made.on_failure = limit.on_failure.value_or(otherwise);

  const auto conditions = CompileMatch(limit.match, work);
  std::vector<KeySlot> keys;
  size_t addresses = 0;
  for (const KeyPart& part : limit.key) {
    keys.push_back({work.Number(part.attribute), part.address, static_cast<uint8_t>(part.mask4),
                    static_cast<uint8_t>(part.mask6)});
    if (part.address) ++addresses;
  }
  work.domain.max_address_parts = std::max(work.domain.max_address_parts, addresses);
  const RuleSet* overrides = limit.overrides.empty() ? nullptr : &CompileOverrides(limit, made, work);
  work.domain.rules.Add(&made, overrides, conditions, keys);
}

const RuleSet& Compiler::CompileOverrides(const LimitDefinition& limit, const core::Limit& base, Work& work) {
  const std::string& file = work.definition.file;
  RuleSet& set = work.domain.overrides.emplace_back();
  // Of the limit only what its rate is compiled from: not its overrides, of which there may be many.
  LimitDefinition plain;
  plain.name = limit.name;
  plain.rate = limit.rate;
  plain.burst = limit.burst;
  plain.permits = limit.permits;
  plain.lease = limit.lease;
  plain.algorithm = limit.algorithm;
  plain.window = limit.window;
  for (const OverrideDefinition& change : limit.overrides) {
    if (change.broken || !CheckOverride(limit, change, file, diagnostics_)) continue;
    // What an override does not say stays as the limit says it.
    LimitDefinition effective = plain;
    if (change.rate) effective.rate = change.rate;
    if (change.burst) effective.burst = change.burst;
    if (change.permits) effective.permits = change.permits;
    const auto params = CompileParams(effective, change.line, file);
    const auto compiled = CompileMatch(change.match, work);
    if (!params) continue;

    core::Limit& made = work.domain.override_limits.emplace_back();
    work.pointers.push_back(&made);
    made.domain = base.domain;
    made.name = base.name;
    made.unit = base.unit;
    made.identity = SharesIdentity(limit, change)
                        ? base.identity
                        : LimitIdentity(base.domain, limit, MatchText(change.match));
    made.key_names = base.key_names;
    made.shard_part = base.shard_part;
    made.params = *params;
    made.timezone = base.timezone;
    made.shadow = base.shadow;
    made.on_failure = base.on_failure;
    made.strict = base.strict;
    made.replicas = base.replicas;
    set.Add(&made, nullptr, compiled, {});
  }
  set.Build();
  return set;
}

Policy::Policy() = default;
Policy::~Policy() = default;

std::unique_ptr<Policy> Policy::Build(const PolicyDefinition& definition, const BuildOptions& options,
                                      Diagnostics& diagnostics) {
  return Compiler(definition, options, diagnostics).Run();
}

}  // namespace penstock::policy
