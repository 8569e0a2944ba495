#include "engine/registry_book.h"

#include <algorithm>
#include <utility>

namespace penstock::engine {
namespace {

RegisteredLimit InForce(std::string_view key, const RegistryBook::Entry& entry) {
  const size_t slash = key.find('/');
  RegisteredLimit out;
  out.domain = key.substr(0, slash);
  out.name = key.substr(slash + 1);
  out.version = entry.version;
  out.put = !entry.put.empty();
  out.revision = out.put || entry.file.empty() ? 0 : entry.revision;
  out.definition = out.put ? entry.put : entry.file;
  return out;
}

}  // namespace

tl::unexpected<Error> RevisionRefused(std::string_view domain, std::string_view name, int64_t revision) {
  return Fail(ErrorKind::kConflict,
              "the limit " + RegistryBook::Key(domain, name) + ": revision " + std::to_string(revision) +
                  " is registered with other content; a changed file needs a higher one");
}

tl::unexpected<Error> RegistryFull() {
  return Fail(ErrorKind::kTooLarge,
              "more than " + std::to_string(kMaxRegisteredLimits) + " limits in the registry");
}

tl::unexpected<Error> VersionRefused(core::Version in_force) {
  return Fail(ErrorKind::kConflict,
              in_force == 0 ? std::string("no such limit is in force")
                            : "version " + std::to_string(in_force) + " of the limit is in force");
}

tl::unexpected<Error> NotPut() {
  return Fail(ErrorKind::kNotFound, "no such limit is set at run time; what a file says is changed there");
}

std::string RegistryBook::Key(std::string_view domain, std::string_view name) {
  std::string key(domain);
  key += '/';
  key += name;
  return key;
}

// The same revision must always say the same.
bool RegistryBook::Refused(const Entry& entry, const Claim& claim) {
  return claim.held == 0 && claim.revision > 0 && claim.revision == entry.revision && !entry.file.empty() &&
         entry.file != claim.definition;
}

Result<std::vector<RegisteredLimit>> RegistryBook::Register(std::span<const Claim> claims, EngineTime now) {
  size_t fresh = 0;
  for (const Claim& claim : claims) {
    const std::string key = Key(claim.domain, claim.name);
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      ++fresh;
    } else if (Refused(found->second, claim)) {
      return RevisionRefused(claim.domain, claim.name, claim.revision);
    }
  }
  if (entries_.size() + fresh > kMaxRegisteredLimits) return RegistryFull();
  std::vector<RegisteredLimit> out;
  out.reserve(claims.size());
  for (const Claim& claim : claims) {
    Apply(claim, now);
    const auto found = entries_.find(Key(claim.domain, claim.name));
    out.push_back(InForce(found->first, found->second));
  }
  return out;
}

RegistryBook::Entry& RegistryBook::Open(const std::string& key, EngineTime now) {
  if (mark_.born == 0) mark_.born = std::max<int64_t>(now.us, 1);
  return entries_[key];
}

void RegistryBook::SetVersion(Entry& entry, core::Version version) {
  mark_.sum = (mark_.sum + kRegistrySumModulus + version - entry.version) % kRegistrySumModulus;
  mark_.last = std::max(mark_.last, version);
  entry.version = version;
}

void RegistryBook::GiveVersion(Entry& entry, core::Version above, EngineTime now) {
  SetVersion(entry, std::max({mark_.last + 1, above + 1, now.us}));
}

void RegistryBook::Apply(const Claim& claim, EngineTime now) {
  Entry& entry = Open(Key(claim.domain, claim.name), now);
  if (claim.held == 0) {
    Load(entry, claim, now);
  } else if (claim.held > entry.version) {
    entry.put = claim.put ? claim.definition : std::string();
    if (!claim.put) {
      entry.file = claim.definition;
      entry.revision = claim.revision;
    }
    SetVersion(entry, claim.held);
  }
  if (claim.above > 0 && entry.version <= claim.above) GiveVersion(entry, claim.above, now);
}

void RegistryBook::Load(Entry& entry, const Claim& claim, EngineTime now) {
  if (!entry.file.empty() && entry.file == claim.definition) {
    entry.revision = std::max(entry.revision, claim.revision);
    return;
  }
  if (!entry.file.empty() && claim.revision < entry.revision) return;  // it follows
  entry.file = claim.definition;
  entry.revision = claim.revision;
  if (entry.put.empty() || entry.version == 0) GiveVersion(entry, 0, now);
}

// The entry of the key, which may be null: nothing stands there and nothing was asked of it.
Result<RegistryBook::Entry*> RegistryBook::Match(std::string_view key,
                                                 std::optional<core::Version> if_match) {
  const auto found = entries_.find(key);
  Entry* const entry = found == entries_.end() ? nullptr : &found->second;
  if (!if_match) return entry;
  const bool in_force = entry != nullptr && !(entry->put.empty() && entry->file.empty());
  if (!in_force) return VersionRefused(0);
  if (entry->version != *if_match) return VersionRefused(entry->version);
  return entry;
}

Result<RegisteredLimit> RegistryBook::Put(std::string_view domain, std::string_view name,
                                          std::string_view definition, std::optional<core::Version> if_match,
                                          EngineTime now) {
  const std::string key = Key(domain, name);
  const Result<Entry*> matched = Match(key, if_match);
  if (!matched) return tl::unexpected<Error>(matched.error());
  if (*matched == nullptr && entries_.size() >= kMaxRegisteredLimits) return RegistryFull();
  Entry& entry = Open(key, now);
  if (entry.put != definition) {
    entry.put = definition;
    GiveVersion(entry, 0, now);
  }
  return InForce(key, entry);
}

Result<RegisteredLimit> RegistryBook::Remove(std::string_view domain, std::string_view name,
                                             std::optional<core::Version> if_match, EngineTime now) {
  const std::string key = Key(domain, name);
  const Result<Entry*> matched = Match(key, if_match);
  if (!matched) return tl::unexpected<Error>(matched.error());
  if (*matched == nullptr || (*matched)->put.empty()) return NotPut();
  Entry& entry = **matched;
  entry.put.clear();
  GiveVersion(entry, 0, now);
  return InForce(key, entry);
}

RegistryChanges RegistryBook::Changes(core::Version since) const {
  RegistryChanges out;
  out.mark = mark_;
  if (since >= mark_.last) return out;
  for (const auto& [key, entry] : entries_) {
    if (entry.version > since) out.limits.push_back(InForce(key, entry));
  }
  return out;
}

bool RegistryBook::Restore(std::string key, Entry entry) {
  if (entries_.size() >= kMaxRegisteredLimits) return false;
  const auto [place, fresh] = entries_.try_emplace(std::move(key));
  if (!fresh) return false;
  const core::Version version = std::exchange(entry.version, 0);
  place->second = std::move(entry);
  SetVersion(place->second, version);
  return true;
}

}  // namespace penstock::engine
