// What this node knows of the registry, beside what its own file says, and the policy that follows from both: puts beat
// files, a file of a lower revision follows a higher one, all others are the file's.
//
// Thread contract: one thread at a time; the keeper hands it from its loop to the compiling thread and back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/limit_registry.h"
#include "policy/definition.h"
#include "policy/policy.h"
#include "service/policy_store.h"

namespace penstock::service {

// A file's limits, each with its text. Immutable once made.
class FileLimits {
 public:
  // kTooLarge: a limit's text passes what a registry takes.
  static Result<std::shared_ptr<const FileLimits>> Make(std::shared_ptr<const policy::PolicyDefinition> file);

  const policy::PolicyDefinition& definition() const { return *definition_; }
  // By "domain/name"; null: it has no such limit.
  std::shared_ptr<const std::string> Text(std::string_view key) const;
  const std::map<std::string, std::shared_ptr<const std::string>, std::less<>>& texts() const {
    return texts_;
  }

 private:
  std::shared_ptr<const policy::PolicyDefinition> definition_;
  std::map<std::string, std::shared_ptr<const std::string>, std::less<>> texts_;
};

class LimitOverlay {
 public:
  // Of a limit that the registry does not know yet: older than any that an engine gives.
  static constexpr core::Version kProvisional = 1;

  struct Known {
    core::Version version = 0;
    bool put = false;
    int64_t revision = 0;
    std::shared_ptr<const std::string> definition;  // never null; empty: removed
  };
  using Unusable = std::map<std::string, std::string, std::less<>>;
  // A policy with its versions set, ready to be bound.
  struct Built {
    std::shared_ptr<policy::Policy> policy;
    std::vector<LimitSource> sources;
    // Definitions of other nodes that this one cannot use, and why, by "domain/name". The file's own takes the place,
    // under a version that is never newer than a bucket's.
    Unusable unusable;
  };

  void SetFile(std::shared_ptr<const FileLimits> file) { file_ = std::move(file); }
  const std::shared_ptr<const FileLimits>& file() const { return file_; }

  // Takes the registry's word; true when that changes the policy.
  bool Apply(const engine::RegisteredLimit& limit);
  const Known* Find(std::string_view key) const;
  // Of all versions, as RegistryMark::sum.
  int64_t sum() const { return sum_; }

  // The file's limits as loads: all, or those that the registry ought to take (it has nothing in force, or what a file
  // of a lower revision said).
  std::vector<engine::Claim> Loads(bool all) const;
  // `all` is the whole registry: what is known, where it has nothing or something older.
  std::vector<engine::Claim> Lost(const std::vector<engine::RegisteredLimit>& all) const;
  // The same limits under a version above one that was seen in buckets.
  std::vector<engine::Claim> Above(const PolicyStore::StaleVersions& seen) const;

  // `compiled` is the file's policy alone, taken where nothing differs from it; may be null.
  Result<Built> Build(const policy::BuildOptions& options, std::shared_ptr<policy::Policy> compiled) const;

 private:
  bool DiffersFromFile(policy::PolicyDefinition& out, Unusable& unusable,
                       const policy::BuildOptions& options) const;

  std::shared_ptr<const FileLimits> file_;  // null: none was loaded
  std::map<std::string, Known, std::less<>> known_;
  int64_t sum_ = 0;
};

}  // namespace penstock::service
