// The documents that come from the table of options: the reference page and the sample file. The committed copies
// (docs/policy-reference.md, examples/policy.yaml) are compared with these by a test.
#pragma once

#include <string>

namespace penstock::policy {

// Markdown: every section with its options, then rates, matchers and what is refused.
std::string ReferencePage();

// A policy that loads as it stands; lines that begin with "#:" are options that are off.
std::string SamplePolicy();

}  // namespace penstock::policy
