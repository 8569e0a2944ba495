// `penstock lint`: a compiled policy in plain words, and what about it is probably not meant.
//
// Thread contract: plain functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/definition.h"
#include "policy/policy.h"

namespace penstock::policy {

struct LintOverride {
  int line = 0;
  std::string applies;  // to which requests
  std::string rate;
  std::string exact;
  std::string buckets;  // the limit's or its own
};

struct LintLimit {
  std::string domain;
  std::string name;
  std::string file;
  int line = 0;
  std::string counts;   // the unit
  std::string buckets;  // one bucket per …
  std::string applies;  // to which requests
  std::string rate;     // in words, with the burst
  std::string exact;    // in the integers that decisions use
  std::string bound;    // what passes at most, at worst
  std::string engine_down;
  bool shadow = false;
  std::vector<LintOverride> overrides;
  std::vector<std::string> warnings;
};

struct LintReport {
  int64_t revision = 0;
  std::vector<LintLimit> limits;
  std::vector<std::string> warnings;       // of no single limit
  std::vector<std::string> fresh_buckets;  // against another policy, when one was given

  // Whether there is something to look at: lint's exit code 1.
  bool HasFindings() const;
};

// `policy` must be compiled from `definition`. `before`: what is in force now, or null.
LintReport Lint(const PolicyDefinition& definition, const Policy& policy,
                const PolicyDefinition* before = nullptr);

// The same warnings, each with its file and line: what a load tells the log. Stops when the diagnostics are full.
void AddWarnings(const PolicyDefinition& definition, Diagnostics& diagnostics);

std::string LintText(const LintReport& report);
std::string LintJson(const LintReport& report);
// The errors of a policy that does not load, as {"ok":false,"errors":[{"file":…,"line":…,"message":…}]}.
std::string ErrorsJson(const Diagnostics& diagnostics);

}  // namespace penstock::policy
