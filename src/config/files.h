// Reading policy files from disk, bounded: one file, or a directory's *.yaml and *.yml.
//
// Thread contract: plain functions that block on the disk; keep them off an event loop's hot path.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace penstock::config {

inline constexpr size_t kMaxPolicyFiles = 1'000;
// Of all files together; of one: policy::kMaxYamlBytes.
inline constexpr size_t kMaxPolicyBytes = 64 * 1024 * 1024;

struct FileText {
  std::string path;
  std::string text;
};

// A regular file's bytes. Fails when it is larger than the bound or changed while it was read.
Result<std::string> ReadFileBounded(const std::string& path, size_t max_bytes);

// The file, or a directory's policy files in the order of their names. Hidden names are left out, so a Kubernetes
// volume (links into ..data, which links into a dated folder) gives every file once; a file that two names mean is
// read once. When ..data is swapped in between, all is read again, so that no mixture comes out.
Result<std::vector<FileText>> ReadPolicyFiles(const std::string& path);

// Whether a directory entry of this name is a policy file.
bool IsPolicyFileName(std::string_view name);

}  // namespace penstock::config
