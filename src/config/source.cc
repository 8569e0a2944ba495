#include "config/source.h"

#include <algorithm>
#include <utility>

#include "policy/compare.h"
#include "policy/lint.h"
#include "policy/reader.h"

namespace penstock::config {
namespace {

using policy::Diagnostics;
using policy::PolicyFile;
using policy::Reporter;

// A section that may stand in one file of several only.
struct Once {
  const char* what;
  std::string file;
  int line = 0;

  // Whether this is the first; reports the second.
  bool Claim(const PolicyFile& from, int at, Diagnostics& diagnostics) {
    if (file.empty()) {
      file = from.file;
      line = at;
      return true;
    }
    diagnostics.Error(from.file, at,
                      std::string(what) + " stands already in " + file + ":" + std::to_string(line));
    return false;
  }
};

}  // namespace

std::unique_ptr<Loaded> LoadTexts(const std::vector<FileText>& files, const policy::BuildOptions& options,
                                  Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.total();
  auto out = std::make_unique<Loaded>();
  std::vector<PolicyFile> read;
  for (const FileText& file : files) {
    out->files.push_back(file.path);
    auto one = policy::ReadPolicyText(file.text, file.path, diagnostics);
    if (one) read.push_back(std::move(*one));
  }
  Once engine{"engine", {}}, listen{"listen", {}}, revision{"revision", {}};
  const Reporter nowhere{"", diagnostics};
  out->engine = ReadEngine(std::nullopt, nowhere);
  out->listen = ReadListen(std::nullopt, nowhere);
  for (PolicyFile& file : read) {
    const Reporter reporter{file.file, diagnostics};
    if (file.engine && engine.Claim(file, file.engine->line(), diagnostics)) {
      out->engine = ReadEngine(file.engine, reporter);
    }
    if (file.listen && listen.Claim(file, file.listen->line(), diagnostics)) {
      out->listen = ReadListen(file.listen, reporter);
    }
    if (file.revision > 0 && revision.Claim(file, file.revision_line, diagnostics)) {
      out->definition.revision = file.revision;
    }
    std::move(file.domains.begin(), file.domains.end(), std::back_inserter(out->definition.domains));
  }
  out->definition.on_failure = out->engine.on_failure;
  out->policy = policy::Policy::Build(out->definition, options, diagnostics);
  if (diagnostics.total() != errors_before) return nullptr;
  policy::AddWarnings(out->definition, diagnostics);
  return out;
}

std::unique_ptr<Loaded> LoadPath(const std::string& path, const policy::BuildOptions& options,
                                 Diagnostics& diagnostics) {
  if (path.empty()) return LoadTexts({}, options, diagnostics);
  const auto files = ReadPolicyFiles(path);
  if (!files) {
    diagnostics.Error("", 0, files.error().message);
    return nullptr;
  }
  return LoadTexts(*files, options, diagnostics);
}

std::string ReloadResult::Text() const {
  std::string out;
  switch (state) {
    case State::kLoaded:
      out = "policy reloaded\n";
      break;
    case State::kUnchanged:
      out = "policy unchanged\n";
      break;
    case State::kFailed:
      out = "policy not reloaded, the last good one stays\n" + diagnostics.Text();
      break;
  }
  for (const std::string& option : need_restart) out += option + " changed: this needs a restart\n";
  for (const std::string& fresh : fresh_buckets) out += fresh + "\n";
  for (const policy::Diagnostic& warning : diagnostics.warnings()) out += "warning: " + warning.Text() + "\n";
  return out;
}

PolicySource::PolicySource(std::string path, policy::BuildOptions options)
    : path_(std::move(path)), options_(std::move(options)) {}

Hash128 PolicySource::Fingerprint(const std::vector<FileText>& files) const {
  std::vector<std::string_view> parts;
  for (const FileText& file : files) {
    parts.push_back(file.path);
    parts.push_back(file.text);
  }
  return hash_key_.HashParts(parts);
}

bool PolicySource::Load(Diagnostics& diagnostics) {
  auto result = Reload();
  diagnostics = std::move(result.diagnostics);
  return result.state != ReloadResult::State::kFailed;
}

ReloadResult PolicySource::Reload() {
  ReloadResult result;
  std::vector<FileText> files;
  if (!path_.empty()) {
    auto read = ReadPolicyFiles(path_);
    if (!read) {
      result.diagnostics.Error("", 0, read.error().message);
      return result;
    }
    files = std::move(*read);
  }
  const Hash128 fingerprint = Fingerprint(files);
  if (current_ != nullptr && fingerprint == fingerprint_) {
    result.state = ReloadResult::State::kUnchanged;
    return result;
  }
  auto loaded = LoadTexts(files, options_, result.diagnostics);
  if (loaded == nullptr) return result;
  if (current_ == nullptr) {
    running_engine_ = loaded->engine;
    running_listen_ = loaded->listen;
  } else {
    result.need_restart = Differences(running_engine_, loaded->engine);
    const auto listen = Differences(running_listen_, loaded->listen);
    result.need_restart.insert(result.need_restart.end(), listen.begin(), listen.end());
    result.fresh_buckets = policy::FreshBuckets(current_->definition, loaded->definition);
    running_engine_.on_failure = loaded->engine.on_failure;  // the limits', so a reload takes it
    loaded->engine = running_engine_;
    loaded->listen = running_listen_;
  }
  before_ = std::exchange(current_, std::move(loaded));
  fingerprint_before_ = std::exchange(fingerprint_, fingerprint);
  ++loads_;
  result.state = ReloadResult::State::kLoaded;
  result.policy = current_->policy;
  return result;
}

void PolicySource::Reject() {
  current_ = std::move(before_);
  fingerprint_ = fingerprint_before_;
}

}  // namespace penstock::config
