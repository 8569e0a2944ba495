#include "service/limit_overlay.h"

#include <utility>

#include "engine/registry_book.h"
#include "policy/definition_text.h"

namespace penstock::service {
namespace {

using engine::Claim;
using engine::RegistryBook;

Claim ClaimOf(std::string_view key) {
  const size_t slash = key.find('/');
  Claim claim;
  claim.domain = key.substr(0, slash);
  claim.name = key.substr(slash + 1);
  return claim;
}

Claim Restoration(std::string_view key, const LimitOverlay::Known& known) {
  Claim claim = ClaimOf(key);
  claim.definition = *known.definition;
  claim.revision = known.revision;
  claim.put = known.put;
  claim.held = known.version;
  return claim;
}

// Reads a definition that another node wrote; false when this one cannot use it.
bool ReadForeign(std::string_view key, const std::string& definition, const policy::BuildOptions& options,
                 LimitOverlay::Unusable& unusable, policy::LimitDefinition& out) {
  const Claim name = ClaimOf(key);
  Result<policy::LimitDefinition> read = policy::ReadDefinition(definition, name.domain, name.name, options);
  if (read) {
    out = *std::move(read);
    return true;
  }
  unusable.emplace(key, read.error().message);
  return false;
}

}  // namespace

Result<std::shared_ptr<const FileLimits>> FileLimits::Make(
    std::shared_ptr<const policy::PolicyDefinition> file) {
  auto out = std::make_shared<FileLimits>();
  for (const policy::DomainDefinition& domain : file->domains) {
    for (const policy::LimitDefinition& limit : domain.limits) {
      auto text = std::make_shared<const std::string>(policy::DefinitionText(limit));
      std::string key = RegistryBook::Key(domain.name, limit.name);
      if (text->size() > engine::kMaxDefinitionBytes) {
        return Fail(ErrorKind::kTooLarge, "the limit " + key + " says more than " +
                                              std::to_string(engine::kMaxDefinitionBytes) +
                                              " bytes; divide its overrides among several limits");
      }
      out->texts_.emplace(std::move(key), std::move(text));
    }
  }
  out->definition_ = std::move(file);
  return std::shared_ptr<const FileLimits>(std::move(out));
}

std::shared_ptr<const std::string> FileLimits::Text(std::string_view key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? nullptr : found->second;
}

bool LimitOverlay::Apply(const engine::RegisteredLimit& limit) {
  std::string key = RegistryBook::Key(limit.domain, limit.name);
  Known& known = known_[key];
  const bool same = known.definition != nullptr && known.version == limit.version && known.put == limit.put &&
                    *known.definition == limit.definition;
  known.revision = limit.revision;
  if (same) return false;
  std::shared_ptr<const std::string> text = file_ != nullptr ? file_->Text(key) : nullptr;
  const bool matters = known.put || limit.put || text != nullptr;
  constexpr int64_t kModulus = engine::kRegistrySumModulus;
  sum_ = (sum_ + kModulus + limit.version - known.version) % kModulus;
  known.version = limit.version;
  known.put = limit.put;
  // Most are what the file says: one copy of the text is enough.
  known.definition = text != nullptr && *text == limit.definition
                         ? std::move(text)
                         : std::make_shared<const std::string>(limit.definition);
  return matters;
}

const LimitOverlay::Known* LimitOverlay::Find(std::string_view key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

std::vector<Claim> LimitOverlay::Loads(bool all) const {
  std::vector<Claim> out;
  if (file_ == nullptr) return out;
  const int64_t revision = file_->definition().revision;
  for (const auto& [key, text] : file_->texts()) {
    const Known* const known = Find(key);
    const bool wanted = known == nullptr || known->definition->empty() ||
                        (!known->put && known->revision < revision && *known->definition != *text);
    if (!all && !wanted) continue;
    Claim& claim = out.emplace_back(ClaimOf(key));
    claim.definition = *text;
    claim.revision = revision;
  }
  return out;
}

std::vector<Claim> LimitOverlay::Lost(const std::vector<engine::RegisteredLimit>& all) const {
  std::unordered_map<std::string, core::Version> there;
  for (const engine::RegisteredLimit& limit : all) {
    there[RegistryBook::Key(limit.domain, limit.name)] = limit.version;
  }
  std::vector<Claim> out;
  for (const auto& [key, known] : known_) {
    const auto found = there.find(key);
    if (found == there.end() || found->second < known.version) out.push_back(Restoration(key, known));
  }
  return out;
}

std::vector<Claim> LimitOverlay::Above(const PolicyStore::StaleVersions& seen) const {
  std::vector<Claim> out;
  for (const auto& [key, version] : seen) {
    const Known* const known = Find(key);
    if (known == nullptr || known->version >= version) continue;
    out.push_back(Restoration(key, *known));
    out.back().above = version;
  }
  return out;
}

// Replaces and adds what is not the file's own; false: nothing.
bool LimitOverlay::DiffersFromFile(policy::PolicyDefinition& out, LimitOverlay::Unusable& unusable,
                                   const policy::BuildOptions& options) const {
  bool differs = false;
  std::unordered_map<std::string_view, policy::DomainDefinition*> domains;
  for (policy::DomainDefinition& domain : out.domains) {
    domains.emplace(domain.name, &domain);
    for (policy::LimitDefinition& limit : domain.limits) {
      const std::string key = RegistryBook::Key(domain.name, limit.name);
      const Known* const known = Find(key);
      if (known == nullptr || known->definition->empty()) continue;
      const std::shared_ptr<const std::string> own = file_->Text(key);
      if (known->definition == own || *known->definition == *own) continue;
      differs |= ReadForeign(key, *known->definition, options, unusable, limit);
    }
  }
  std::map<std::string, std::vector<policy::LimitDefinition>> added;
  for (const auto& [key, known] : known_) {
    if (!known.put || (file_ != nullptr && file_->Text(key) != nullptr)) continue;
    policy::LimitDefinition limit;
    if (!ReadForeign(key, *known.definition, options, unusable, limit)) continue;
    differs = true;
    added[ClaimOf(key).domain].push_back(std::move(limit));
  }
  for (auto& [name, limits] : added) {
    const auto found = domains.find(name);
    if (found == domains.end()) {
      out.domains.push_back({name, std::move(limits), "put", 0});
      continue;
    }
    for (policy::LimitDefinition& limit : limits) found->second->limits.push_back(std::move(limit));
  }
  return differs;
}

Result<LimitOverlay::Built> LimitOverlay::Build(const policy::BuildOptions& options,
                                                std::shared_ptr<policy::Policy> compiled) const {
  Built out;
  policy::PolicyDefinition definition;
  if (file_ != nullptr) definition = file_->definition();
  if (DiffersFromFile(definition, out.unusable, options) || compiled == nullptr) {
    policy::Diagnostics diagnostics;
    compiled = policy::Policy::Build(definition, options, diagnostics);
    if (compiled == nullptr) return Invalid(diagnostics.Text());
  }
  out.policy = std::move(compiled);
  for (core::Limit* limit : out.policy->limits()) {
    const std::string key = RegistryBook::Key(limit->domain, limit->name);
    const Known* const known = Find(key);
    LimitSource& source = out.sources.emplace_back();
    limit->version = kProvisional;
    if (known != nullptr && !out.unusable.contains(key)) {
      limit->version = known->version;
      source = {known->put, known->revision, known->definition};
    } else if (file_ != nullptr) {
      source = {false, file_->definition().revision, file_->Text(key)};
    }
  }
  return out;
}

}  // namespace penstock::service
