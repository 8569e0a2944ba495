#include "service/policy_store.h"

#include <algorithm>
#include <utility>

namespace penstock::service {

PolicyStore::PolicyStore(Metrics& metrics)
    : metrics_(metrics), newest_(std::make_shared<const PublishedPolicy>()) {}

Result<std::shared_ptr<PublishedPolicy>> PolicyStore::Prepare(std::shared_ptr<policy::Policy> policy) {
  auto published = std::make_shared<PublishedPolicy>();
  const std::span<core::Limit* const> limits = policy->limits();
  published->limits.reserve(limits.size());
  for (core::Limit* limit : limits) {
    const Result<std::string_view> name = names_.Keep(limit->name);
    if (!name) return tl::unexpected<Error>(name.error());
    const Result<std::string_view> unit = names_.Keep(limit->unit);
    if (!unit) return tl::unexpected<Error>(unit.error());
    const Result<uint32_t> slot = metrics_.Slot(limit->domain, limit->name);
    if (!slot) return tl::unexpected<Error>(slot.error());
    limit->number = static_cast<uint32_t>(published->limits.size());
    published->limits.push_back({*name, *unit, RefillTime(limit->params), *slot});
  }
  published->policy = std::move(policy);
  return published;
}

Result<void> PolicyStore::Publish(std::shared_ptr<policy::Policy> policy, std::vector<LimitSource> sources,
                                  engine::EngineSession& session) {
  const std::span<core::Limit* const> limits = policy->limits();
  Result<std::shared_ptr<PublishedPolicy>> prepared = Prepare(std::move(policy));
  if (!prepared) return tl::unexpected<Error>(prepared.error());
  if (Result<void> bound = session.Bind(limits); !bound) return bound;
  (*prepared)->sources = std::move(sources);
  Announce(*prepared);
  return {};
}

void PolicyStore::Publish(std::shared_ptr<policy::Policy> policy, engine::EngineSession& session,
                          std::function<void(Result<void>)> done) {
  const std::span<core::Limit* const> limits = policy->limits();
  Result<std::shared_ptr<PublishedPolicy>> prepared = Prepare(std::move(policy));
  if (!prepared) return done(tl::unexpected<Error>(prepared.error()));
  session.Register(limits,
                   [this, published = *std::move(prepared), done = std::move(done)](Result<void> registered) {
                     if (registered) Announce(published);
                     done(std::move(registered));
                   });
}

void PolicyStore::Announce(const std::shared_ptr<PublishedPolicy>& published) {
  // Posted under the lock: a loop that leaves must not be posted to after RemoveLoop.
  MutexLock lock(mutex_);
  published->generation = newest_->generation + 1;
  newest_ = published;
  for (const Loop& loop : loops_) {
    loop.executor->Post([seat = loop.seat, newest = newest_] {
      if (seat->receiver != nullptr) seat->receiver->SetPolicy(newest);
    });
  }
}

void PolicyStore::ReportStale(std::string_view domain, std::string_view name, core::Version seen) {
  std::string key(domain);
  key += '/';
  key += name;
  std::function<void()> hook;
  {
    MutexLock lock(mutex_);
    if (stale_.empty()) hook = on_stale_;
    const auto found = stale_.find(key);
    if (found != stale_.end()) {
      found->second = std::max(found->second, seen);
    } else if (stale_.size() < kMaxStale) {
      stale_.emplace(std::move(key), seen);
    }
  }
  if (hook) hook();
}

PolicyStore::StaleVersions PolicyStore::TakeStale() {
  MutexLock lock(mutex_);
  return std::exchange(stale_, {});
}

void PolicyStore::OnStale(std::function<void()> hook) {
  MutexLock lock(mutex_);
  on_stale_ = std::move(hook);
}

PolicyPointer PolicyStore::Newest() const {
  MutexLock lock(mutex_);
  return newest_;
}

void PolicyStore::AddLoop(Executor& executor, PolicyReceiver& receiver) {
  auto seat = std::make_shared<Seat>();
  seat->receiver = &receiver;
  PolicyPointer newest;
  {
    MutexLock lock(mutex_);
    newest = newest_;
    loops_.push_back({&executor, std::move(seat)});
  }
  receiver.SetPolicy(std::move(newest));
}

void PolicyStore::RemoveLoop(const PolicyReceiver& receiver) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(loops_.begin(), loops_.end(),
                                  [&receiver](const Loop& loop) { return loop.seat->receiver == &receiver; });
  if (found == loops_.end()) return;
  found->seat->receiver = nullptr;
  loops_.erase(found);
}

}  // namespace penstock::service
