// Policy files: from text to a definition. The native shape is read here; the shapes of envoyproxy/ratelimit and
// limitador are told apart and refused by name until their readers stand beside this one.
//
// Thread contract: plain functions and values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "policy/definition.h"
#include "policy/diagnostics.h"
#include "policy/yaml.h"

namespace penstock::policy {

// Which project's policy a document is, by its shape alone.
enum class FileShape : uint8_t { kNative, kEnvoy, kLimitador };
FileShape DetectShape(const YamlValue& root);

// One file as read. `engine` and `listen` are left to config/, which knows what they mean; they point into
// `document`.
struct PolicyFile {
  std::string file;
  std::unique_ptr<YamlDocument> document;
  std::vector<DomainDefinition> domains;
  int64_t revision = 0;  // 0 = none
  int revision_line = 0;
  std::optional<YamlValue> engine;
  std::optional<YamlValue> listen;
};

// Reads one file's text; what is wrong is in the diagnostics, and what could be read is in the result all the same,
// so that a compiler can find more. Empty when it was no YAML, was empty or of another project's shape.
std::optional<PolicyFile> ReadPolicyText(std::string_view text, std::string_view file,
                                         Diagnostics& diagnostics);

// One limit alone, by the keys that a file takes; its name may be left out, it is `name` then. Empty when it could not be
// read at all; what is wrong is in the diagnostics, under no file.
std::optional<LimitDefinition> ReadLimitText(std::string_view text, std::string_view name,
                                             Diagnostics& diagnostics);

// The policy's part of one native file alone: read and compiled. For tests and embedders; null on errors.
std::unique_ptr<class Policy> ReadPolicy(std::string_view text, std::string_view file,
                                         const struct BuildOptions& options, Diagnostics& diagnostics);

}  // namespace penstock::policy
