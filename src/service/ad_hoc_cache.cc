#include "service/ad_hoc_cache.h"

#include <utility>

#include "policy/identity.h"
#include "service/metrics.h"
#include "service/names.h"

namespace penstock::service {

AdHocCache::AdHocCache(const engine::Engine& engine, engine::EngineSession& session)
    : engine_(engine), session_(session) {}

AdHocCache::~AdHocCache() {
  ForgetUnbound();
  while (oldest_ != nullptr) DropOldest();
}

size_t AdHocCache::Bucket(const core::RateSpec& spec) {
  uint64_t hash = static_cast<uint64_t>(spec.count) * 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ static_cast<uint64_t>(spec.period.count)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 32) ^ static_cast<uint64_t>(spec.burst.value_or(-1))) * 0x94d049bb133111ebULL;
  hash ^= static_cast<uint64_t>(spec.algorithm) << 8 | static_cast<uint64_t>(spec.window) << 4 |
          static_cast<uint64_t>(spec.kind);
  return static_cast<size_t>(hash ^ (hash >> 29)) % kEntries;
}

Result<AdHocCache::Entry*> AdHocCache::Find(const core::RateSpec& spec) {
  for (Entry* entry = buckets_[Bucket(spec)]; entry != nullptr; entry = entry->chain_) {
    if (!Same(entry->spec, spec)) continue;
    Unlink(*entry);
    LinkNewest(*entry);
    return entry;
  }
  ForgetUnbound();
  Result<std::unique_ptr<Entry>> compiled = Compile(spec);
  if (!compiled) return tl::unexpected<Error>(std::move(compiled).error());
  Entry* entry = compiled->release();
  if (!entry->bound_) return unbound_ = entry;
  if (size_ == kEntries) DropOldest();
  Entry*& head = buckets_[Bucket(spec)];
  entry->chain_ = std::exchange(head, entry);
  LinkNewest(*entry);
  ++size_;
  return entry;
}

Result<std::unique_ptr<AdHocCache::Entry>> AdHocCache::Compile(const core::RateSpec& spec) {
  Result<core::LimitParams> params = core::CompileRate(spec);
  if (!params) return tl::unexpected<Error>(std::move(params).error());
  const Result<void> can_hold = engine_.CanHold(*params);
  if (!can_hold) return tl::unexpected<Error>(can_hold.error());
  policy::LimitDefinition definition;  // only what makes the identity
  definition.algorithm = spec.algorithm;
  definition.window = spec.window;
  auto entry = std::make_unique<Entry>();
  entry->spec = spec;
  entry->limit.domain = kAdHocDomain;
  entry->limit.name = kAdHocName;
  entry->limit.identity = policy::LimitIdentity(kAdHocDomain, definition, {});
  entry->limit.key_names = {"key"};
  entry->limit.params = *params;
  entry->info = {kAdHocName, kRequestsUnit, RefillTime(*params), Metrics::kAdHocSlot};
  entry->bound_ = session_.BindAdHoc(entry->limit);
  ++compiled_;
  return entry;
}

void AdHocCache::Unlink(Entry& entry) {
  (entry.newer_ != nullptr ? entry.newer_->older_ : newest_) = entry.older_;
  (entry.older_ != nullptr ? entry.older_->newer_ : oldest_) = entry.newer_;
}

void AdHocCache::LinkNewest(Entry& entry) {
  entry.newer_ = nullptr;
  entry.older_ = newest_;
  (newest_ != nullptr ? newest_->newer_ : oldest_) = &entry;
  newest_ = &entry;
}

void AdHocCache::ForgetUnbound() {
  if (unbound_ == nullptr) return;
  unbound_->dropped_ = true;
  if (unbound_->uses_ == 0) delete unbound_;
  unbound_ = nullptr;
}

void AdHocCache::DropOldest() {
  Entry& entry = *oldest_;
  Unlink(entry);
  Entry** link = &buckets_[Bucket(entry.spec)];
  while (*link != &entry) link = &(*link)->chain_;  // ends: the entry stands in this chain
  *link = entry.chain_;
  --size_;
  entry.dropped_ = true;
  if (entry.uses_ == 0) delete &entry;
}

}  // namespace penstock::service
