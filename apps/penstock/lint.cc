// `penstock lint`: what a policy says, in plain words, and what about it is probably not meant.
#include "policy/lint.h"

#include <cstdio>
#include <memory>
#include <string>

#include "commands.h"
#include "config/source.h"
#include "server/server.h"

namespace penstock::app {
namespace {

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
}

int PrintErrors(const policy::Diagnostics& diagnostics, bool json) {
  if (json) {
    Print(policy::ErrorsJson(diagnostics));
  } else {
    std::fputs(diagnostics.Text().c_str(), stderr);
  }
  return kExitUsage;
}

}  // namespace

int RunLint(const LintFlags& flags) {
  const policy::BuildOptions options = server::WhatMemoryHolds();
  policy::Diagnostics diagnostics;
  const std::unique_ptr<config::Loaded> loaded = config::LoadPath(flags.file, options, diagnostics);
  if (!loaded) return PrintErrors(diagnostics, flags.json);
  std::unique_ptr<config::Loaded> before;
  if (!flags.against.empty()) {
    policy::Diagnostics of_before;
    before = config::LoadPath(flags.against, options, of_before);
    if (!before) return PrintErrors(of_before, flags.json);
  }
  const policy::LintReport report =
      policy::Lint(loaded->definition, *loaded->policy, before ? &before->definition : nullptr);
  Print(flags.json ? policy::LintJson(report) : policy::LintText(report));
  return report.HasFindings() ? kExitDenied : kExitFine;
}

}  // namespace penstock::app
