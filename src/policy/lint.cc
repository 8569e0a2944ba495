#include "policy/lint.h"

#include <algorithm>

#include "policy/compare.h"
#include "policy/identity.h"
#include "policy/lint_rules.h"
#include "policy/matcher.h"

namespace penstock::policy {
namespace {

using core::Algorithm;
using core::LimitParams;
using core::RateKind;

std::string Number(int64_t value) { return std::to_string(value); }

std::string KeyWords(const std::vector<KeyPart>& key) {
  if (key.empty()) return "one bucket for all";
  std::string out = "one bucket per ";
  for (size_t i = 0; i < key.size(); ++i) {
    if (i > 0) out += i + 1 == key.size() ? " and " : ", ";
    out += key[i].attribute;
    if (key[i].address) out += " (IPv4 /" + Number(key[i].mask4) + ", IPv6 /" + Number(key[i].mask6) + ")";
  }
  return out;
}

std::string MatchWords(const std::vector<Condition>& match) {
  std::string out;
  for (const Condition& condition : match) {
    out += (out.empty() ? "" : ", ") + condition.attribute + " " + DescribeMatcher(condition.matcher);
  }
  return out;
}

std::string AppliesWords(const LimitDefinition& limit) {
  std::string out = limit.match.empty() ? "every request" : "requests with " + MatchWords(limit.match);
  if (limit.key.empty()) return out;
  out += limit.match.empty() ? " that has " : ", that have ";
  for (size_t i = 0; i < limit.key.size(); ++i) out += (i > 0 ? ", " : "") + limit.key[i].attribute;
  return out;
}

std::string WindowWords(const core::Limit& limit) {
  switch (limit.params.window) {
    case core::WindowKind::kEpoch:
      return "windows aligned to the epoch";
    case core::WindowKind::kFirstRequest:
      return "windows from the first request on";
    default:
      return std::string(ToString(limit.params.window)) + "s from local midnight, " + limit.timezone;
  }
}

std::string RateWords(const core::Limit& limit) {
  const LimitParams& params = limit.params;
  if (params.algorithm == Algorithm::kPermits) {
    return Number(params.capacity) + " held at once, each for " + FormatDuration(params.period) +
           " unless renewed";
  }
  if (params.kind == RateKind::kZero) return "0: denies always";
  if (params.kind == RateKind::kUnlimited) return "unlimited: allows always and stores nothing";
  const std::string count = Number(params.count) + " per ";
  switch (params.algorithm) {
    case Algorithm::kTokenBucket:
      return count + FormatDuration(params.period) + ", a token bucket with a burst of " +
             Number(params.capacity);
    case Algorithm::kFixedWindow:
      return count +
             (core::IsCalendar(params.window) ? std::string(ToString(params.window))
                                              : FormatDuration(params.period)) +
             ", " + WindowWords(limit);
    case Algorithm::kSlidingWindow:
      return count + FormatDuration(params.period) + ", a sliding window of two counters";
    default:
      return count + FormatDuration(params.period) + ", a sliding log of every instant";
  }
}

std::string ExactWords(const LimitParams& params) {
  if (params.kind != RateKind::kFinite || params.algorithm == Algorithm::kPermits) return "nothing to count";
  if (params.algorithm == Algorithm::kTokenBucket) {
    return "c=" + Number(params.drain) + " drains each tick of " + FormatDuration(params.tick) +
           ", one costs p=" + Number(params.unit_cost) + ", capacity " +
           Number(params.capacity * params.unit_cost);
  }
  if (params.algorithm == Algorithm::kSlidingWindow) {
    return Number(params.count) + " a window of " + Number(params.period.count / params.tick.count) +
           " ticks of " + FormatDuration(params.tick);
  }
  return Number(params.count) + " by whole microseconds";
}

// floor(burst + rate * (P + t)), the promise of rule E2 over one period.
int64_t BucketBound(const LimitParams& params) {
  __extension__ using Wide = __int128;
  const Wide span = Wide{params.period.count} + params.tick.count;
  const Wide bound = params.capacity + Wide{params.count} * span / params.period.count;
  return bound > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bound);
}

std::string BoundWords(const LimitParams& params) {
  if (params.algorithm == Algorithm::kPermits)
    return "at most " + Number(params.capacity) + " at any instant";
  if (params.kind == RateKind::kZero) return "nothing passes";
  if (params.kind == RateKind::kUnlimited) return "none";
  const std::string period = FormatDuration(params.period);
  switch (params.algorithm) {
    case Algorithm::kTokenBucket:
      return "at most " + Number(BucketBound(params)) + " in any " + period + " (burst + rate * (time + " +
             FormatDuration(params.tick) + "))";
    case Algorithm::kFixedWindow:
      return "at most " + Number(params.count) + " a window, so up to " + Number(2 * params.count) +
             " around the edge of two";
    case Algorithm::kSlidingWindow:
      return "at most " + Number(params.count) +
             " a window; after a full one the next fills no faster than the rate, so below " +
             Number(2 * params.count) + " in any " + period;
    default:
      return "at most " + Number(params.count) + " in any " + period;
  }
}

std::string FailureWords(core::OnFailure on_failure) {
  switch (on_failure) {
    case core::OnFailure::kAllow:
      return "allow: passes uncounted";
    case core::OnFailure::kDeny:
      return "deny: nothing passes";
    case core::OnFailure::kLocal:
      return "local: this node's share";
  }
  return {};
}

LintLimit Describe(const DomainDefinition& domain, const LimitDefinition& limit,
                   std::span<core::Limit* const> compiled) {
  const core::Limit& base = *compiled[0];
  LintLimit out;
  out.domain = domain.name;
  out.name = limit.name;
  out.file = domain.file;
  out.line = limit.line;
  out.counts = limit.unit;
  out.buckets = KeyWords(limit.key);
  out.applies = AppliesWords(limit);
  out.rate = RateWords(base);
  out.exact = ExactWords(base.params);
  out.bound = BoundWords(base.params);
  out.engine_down = FailureWords(base.on_failure);
  out.shadow = limit.shadow;
  for (size_t i = 0; i < limit.overrides.size(); ++i) {
    const OverrideDefinition& change = limit.overrides[i];
    const core::Limit& effective = *compiled[i + 1];
    out.overrides.push_back({change.line, "requests with " + MatchWords(change.match), RateWords(effective),
                             ExactWords(effective.params),
                             SharesIdentity(limit, change) ? "the limit's buckets" : "buckets of its own"});
  }
  out.warnings = LimitWarnings(limit);
  return out;
}

}  // namespace

bool LintReport::HasFindings() const {
  return !warnings.empty() || !fresh_buckets.empty() ||
         std::any_of(limits.begin(), limits.end(),
                     [](const LintLimit& limit) { return !limit.warnings.empty(); });
}

LintReport Lint(const PolicyDefinition& definition, const Policy& policy, const PolicyDefinition* before) {
  LintReport report;
  report.revision = definition.revision;
  // The policy's limits stand in the definition's order, each followed by its overrides.
  std::span<core::Limit* const> compiled = policy.limits();
  for (const DomainDefinition& domain : definition.domains) {
    for (const LimitDefinition& limit : domain.limits) {
      report.limits.push_back(Describe(domain, limit, compiled));
      compiled = compiled.subspan(1 + limit.overrides.size());
    }
    const auto warnings = DomainWarnings(domain);
    report.warnings.insert(report.warnings.end(), warnings.begin(), warnings.end());
  }
  if (definition.domains.empty())
    report.warnings.push_back("there is no domain: only ad hoc limits are served");
  if (before != nullptr) report.fresh_buckets = FreshBuckets(*before, definition);
  return report;
}

void AddWarnings(const PolicyDefinition& definition, Diagnostics& diagnostics) {
  for (const DomainDefinition& domain : definition.domains) {
    for (const LimitDefinition& limit : domain.limits) {
      if (diagnostics.warnings().size() >= Diagnostics::kMaxWarnings) return;
      for (const std::string& warning : LimitWarnings(limit)) {
        diagnostics.Warning(domain.file, limit.line, "the limit " + limit.name + ": " + warning);
      }
    }
    for (const std::string& warning : DomainWarnings(domain))
      diagnostics.Warning(domain.file, domain.line, warning);
  }
}

}  // namespace penstock::policy
