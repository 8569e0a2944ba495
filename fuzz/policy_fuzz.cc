// A policy file as a person, a tool or a half-finished write may leave it. The input is the file's text; when its first
// byte is `2` the text behind the first line that says `-- ` is a second file of the same folder.
//
// Besides not crashing: a policy either loads or has an error, errors are bounded and name their file; what loads is
// described by lint, matches requests made of the text's own words in the policy's order and within bounds, and says
// the same when it is loaded again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "config/source.h"
#include "policy/lint.h"

namespace {

using namespace penstock;  // NOLINT(google-build-using-namespace)

void Require(bool holds) {
  if (!holds) std::abort();
}

std::vector<config::FileText> Files(std::string_view input) {
  constexpr std::string_view kCut = "\n-- \n";
  if (!input.starts_with('2')) return {{"a.yaml", std::string(input)}};
  input.remove_prefix(1);
  const size_t cut = input.find(kCut);
  if (cut == std::string_view::npos) return {{"a.yaml", std::string(input)}};
  return {{"a.yaml", std::string(input.substr(0, cut))},
          {"b.yaml", std::string(input.substr(cut + kCut.size()))}};
}

// Words of the text: a request's attributes and values are likely among them.
std::vector<std::string_view> Words(std::string_view text) {
  constexpr size_t kMaxWords = 2 * kMaxAttributesPerRequest;
  constexpr std::string_view kBreaks = " \n\t{}[],:\"'";
  std::vector<std::string_view> out;
  while (!text.empty() && out.size() < kMaxWords) {
    const size_t begin = std::min(text.find_first_not_of(kBreaks), text.size());
    text.remove_prefix(begin);
    const size_t size = std::min(text.find_first_of(kBreaks), text.size());
    if (size > 0) out.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

void Ask(const config::Loaded& loaded, std::string_view input) {
  const auto words = Words(input);
  policy::MatchScratch scratch;
  for (size_t shift = 0; shift < std::min<size_t>(words.size(), 8); ++shift) {
    std::vector<Attribute> attributes;
    for (size_t i = 0; i < words.size() && attributes.size() < kMaxAttributesPerRequest; ++i) {
      attributes.push_back({words[i], words[(i + shift) % words.size()]});
    }
    for (const auto& domain : loaded.definition.domains) {
      const policy::Domain* found = loaded.policy->FindDomain(domain.name);
      Require(found != nullptr);
      if (!loaded.policy->Match(*found, attributes, scratch)) continue;
      Require(scratch.matches.size() <= kMaxLimitsPerRequest);
      for (const policy::Match& match : scratch.matches) {
        Require(match.limit->domain == domain.name);
        Require(match.part_count == match.limit->key_names.size());
        Require(match.first_part + match.part_count <= scratch.parts.size());
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto files = Files(input);
  for (const bool permits : {true, false}) {
    policy::BuildOptions options;
    options.permits = permits;
    policy::Diagnostics diagnostics;
    const auto loaded = config::LoadTexts(files, options, diagnostics);
    Require((loaded == nullptr) == !diagnostics.ok());
    Require(diagnostics.errors().size() <= policy::Diagnostics::kMaxErrors);
    for (const policy::Diagnostic& error : diagnostics.errors()) {
      Require(!error.file.empty() && error.line >= 0 && !error.message.empty());
    }
    if (loaded == nullptr) continue;
    const auto report = policy::Lint(loaded->definition, *loaded->policy, &loaded->definition);
    Require(report.fresh_buckets.empty());
    Require(!policy::LintText(report).empty() || loaded->definition.domains.empty() || report.limits.empty());
    Require(policy::LintJson(report).starts_with("{\"ok\":true"));
    Ask(*loaded, input);
  }
  return 0;
}
