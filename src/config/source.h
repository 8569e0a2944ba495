// Where the policy comes from: loads a file or a directory, and loads it again on demand. What is wrong leaves the
// last good policy in force; what a reload cannot change, and what it changes besides the numbers, is said.
//
// Thread contract: one thread, not an event loop's hot path (it reads files and compiles). The policies it gives may be
// shared once their limits() are registered with the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "config/files.h"
#include "config/settings.h"
#include "policy/policy.h"

namespace penstock::config {

struct Loaded {
  std::shared_ptr<policy::Policy> policy;  // without any domain when no file was given
  policy::PolicyDefinition definition;     // what it was compiled from, for lint
  EngineOptions engine;
  ListenOptions listen;
  std::vector<std::string> files;
};

// Reads and compiles the texts; null when an error was added to the diagnostics.
std::unique_ptr<Loaded> LoadTexts(const std::vector<FileText>& files, const policy::BuildOptions& options,
                                  policy::Diagnostics& diagnostics);
// The same from disk. An empty path: the defaults and no domain.
std::unique_ptr<Loaded> LoadPath(const std::string& path, const policy::BuildOptions& options,
                                 policy::Diagnostics& diagnostics);

struct ReloadResult {
  enum class State : uint8_t {
    kLoaded,     // `policy` is new
    kUnchanged,  // the files say what they said
    kFailed,     // the last good policy stays; `diagnostics` says why
  };
  State state = State::kFailed;
  std::shared_ptr<policy::Policy> policy;  // kLoaded only
  policy::Diagnostics diagnostics;
  std::vector<std::string> need_restart;   // changed options of engine and listen, which only a restart takes
  std::vector<std::string> fresh_buckets;  // one sentence each

  // For the log: one line each, without a time.
  std::string Text() const;
};

class PolicySource {
 public:
  // An empty path means no policy: only ad hoc limits.
  PolicySource(std::string path, policy::BuildOptions options);

  // Loads for the first time; false when it failed, with the reason in `diagnostics`, and current() is null then.
  // Warnings (what lint would say) stand there too.
  bool Load(policy::Diagnostics& diagnostics);
  // The same again: a new policy, or why there is none.
  ReloadResult Reload();

  // The engine refused what the last Reload or Load gave: the one before is in force again, and the next Reload tries
  // the files anew.
  void Reject();

  // What is in force: the last good load. The engine's and the listeners' options are those of the first load.
  const Loaded* current() const { return current_.get(); }
  const std::string& path() const { return path_; }
  uint64_t loads() const { return loads_; }  // that succeeded with a change, the first included

 private:
  Hash128 Fingerprint(const std::vector<FileText>& files) const;

  const std::string path_;
  const policy::BuildOptions options_;
  const HashKey hash_key_ = HashKey::Random();
  std::unique_ptr<Loaded> current_;
  std::unique_ptr<Loaded> before_;  // current_, should it be rejected
  Hash128 fingerprint_;             // of current_'s files
  Hash128 fingerprint_before_;
  // What is really running, whatever later files say.
  EngineOptions running_engine_;
  ListenOptions running_listen_;
  uint64_t loads_ = 0;
};

}  // namespace penstock::config
