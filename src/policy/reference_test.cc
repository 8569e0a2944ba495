#include "policy/reference.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "policy/options.h"
#include "policy/policy.h"
#include "policy/reader.h"

namespace penstock::policy {
namespace {

std::string FileText(const std::string& name) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/" + name);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(Reference, TheCommittedPageIsTheGeneratedOne) {
  EXPECT_EQ(FileText("docs/policy-reference.md"), ReferencePage())
      << "make it anew: policy_reference page > docs/policy-reference.md";
}

TEST(Reference, TheCommittedSampleIsTheGeneratedOne) {
  EXPECT_EQ(FileText("examples/policy.yaml"), SamplePolicy())
      << "make it anew: policy_reference sample > examples/policy.yaml";
}

TEST(Reference, TheSampleLoads) {
  Diagnostics diagnostics;
  EXPECT_NE(ReadPolicy(SamplePolicy(), "sample", {}, diagnostics), nullptr) << diagnostics.Text();
}

TEST(Reference, TheSampleLoadsWithEverythingOn) {
  const std::string all = std::regex_replace(SamplePolicy(), std::regex("\n#:"), "\n");
  BuildOptions options;
  options.permits = true;
  Diagnostics diagnostics;
  EXPECT_NE(ReadPolicy(all, "sample", options, diagnostics), nullptr) << diagnostics.Text();
  for (const Option& option : AllOptions()) {
    EXPECT_NE(all.find(std::string(option.name) + ":"), std::string::npos) << option.name;
    EXPECT_NE(all.find("# " + std::string(option.meaning)), std::string::npos) << option.name;
  }
}

TEST(Reference, TheTableIsSound) {
  for (const Option& option : AllOptions()) {
    EXPECT_EQ(FindOption(option.section, option.name), &option) << option.name << " stands twice";
    EXPECT_FALSE(option.meaning.empty()) << option.name;
    EXPECT_FALSE(option.required && !option.fallback.empty()) << option.name;
    EXPECT_EQ(option.type == ValueType::kChoice, !option.choices.empty()) << option.name;
    EXPECT_LE(option.min, option.max) << option.name;
  }
}

}  // namespace
}  // namespace penstock::policy
