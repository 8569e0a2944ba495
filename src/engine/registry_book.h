// The registry's rule as a plain table: who wins of a file, a file's revision, a put and its removal, and which version
// that gives. The memory engine keeps one under a lock; redis/lua/registry.lua does the same inside Redis, and a test
// holds both equal.
//
// Thread contract: one thread, or under its owner's lock.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/limit_registry.h"

namespace penstock::engine {

// What every registry answers in these cases.
tl::unexpected<Error> RevisionRefused(std::string_view domain, std::string_view name, int64_t revision);
tl::unexpected<Error> RegistryFull();
tl::unexpected<Error> VersionRefused(core::Version in_force);  // 0: nothing is
tl::unexpected<Error> NotPut();

class RegistryBook {
 public:
  // Invariant: version > 0. Nothing is in force where both texts are empty.
  struct Entry {
    std::string file;      // what the last file said; empty: none has
    std::string put;       // what was set at run time; empty: nothing
    int64_t revision = 0;  // of `file`
    core::Version version = 0;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;  // by Key

  // Names have no slash.
  static std::string Key(std::string_view domain, std::string_view name);

  Result<std::vector<RegisteredLimit>> Register(std::span<const Claim> claims, EngineTime now);
  Result<RegisteredLimit> Put(std::string_view domain, std::string_view name, std::string_view definition,
                              std::optional<core::Version> if_match, EngineTime now);
  Result<RegisteredLimit> Remove(std::string_view domain, std::string_view name,
                                 std::optional<core::Version> if_match, EngineTime now);
  RegistryChanges Changes(core::Version since) const;

  const RegistryMark& mark() const { return mark_; }
  const Entries& entries() const { return entries_; }
  // What an earlier process kept; false when it stands there already or there are too many.
  bool Restore(std::string key, Entry entry);
  // No version at or below this is given any more.
  void RaiseLast(core::Version version) { mark_.last = std::max(mark_.last, version); }

 private:
  static bool Refused(const Entry& entry, const Claim& claim);
  void Apply(const Claim& claim, EngineTime now);
  void Load(Entry& entry, const Claim& claim, EngineTime now);
  Entry& Open(const std::string& key, EngineTime now);
  void SetVersion(Entry& entry, core::Version version);
  void GiveVersion(Entry& entry, core::Version above, EngineTime now);
  Result<Entry*> Match(std::string_view key, std::optional<core::Version> if_match);

  Entries entries_;
  RegistryMark mark_;
};

}  // namespace penstock::engine
