// The judge of permit_traffic.h: buckets as the contract describes them, in plain containers, over core's rules and
// core/testing/permit_book.h. What the store adds to the book is here: sessions that give their word, versions, names, and
// how long what has expired is told of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/bucket_book.h"
#include "core/testing/permit_book.h"
#include "engine/holder_list.h"

namespace penstock::fixtures {

class JudgedBucket {
 public:
  struct Fate {
    core::PermitFate fate = core::PermitFate::kUnknown;
    Micros left{};  // renewed
  };

  bool permits = true;
  bool lease_changed = false;  // then for how long what has expired is told of may differ
  std::vector<std::shared_ptr<core::Limit>> versions;

  const core::Limit& limit() const { return *versions.back(); }

  // As it is found by who asks; `word`: his session gives its word by asking.
  core::BucketView View(const Hash128& asker, uint64_t session, bool word, EngineTime now) {
    if (!permits) return rate_.View();
    found_ = version_ > 0 ? params_ : limit().params;
    core::BucketView view = book_.View(found_, asker, now);
    if (view.present) PruneHead(session, word, now);
    view = book_.View(found_, asker, now);
    view.version = version_;
    return view;
  }

  void Apply(const core::Limit& limit, const core::Operation& operation, const core::PermitAsk& ask,
             uint64_t session, EngineTime now) {
    const core::BucketEdit& edit = operation.edit;
    if (!permits) {
      rate_.Apply(limit, edit);
      if (edit.write) Lapse(rate_.IdleAt().us);
      return;
    }
    if (!edit.write) return;
    if (version_ < limit.version) Lapse(now.us + 2'000'000);
    if (version_ <= limit.version) {
      if (version_ > 0) lease_changed = lease_changed || params_.period != limit.params.period;
      version_ = limit.version;
      params_ = limit.params;
    }
    book_.Apply(edit, operation.charge, ask);
    if (edit.permit == core::PermitChange::kGrant) {
      const core::Holder holder = core::HolderOf(operation.charge, ask.id);
      LapseHolder(holder.expires_at);
      Lapse(holder.fence + 1);
      fence_ = edit.state.before;
      if (!ask.holder.empty()) names_[ask.id] = ask.holder;
    }
    if (edit.permit == core::PermitChange::kQueue) {
      waits_[ask.id] = {session, operation.cost};
      said_[session] = now.us;
      Lapse(now.us + 3'000'000);
      Lapse(now.us + ask.queue_for.count);
    }
  }

  // Nothing is held nor used; who waits goes on.
  void Reset(EngineTime now) {
    rate_.Forget();
    const std::vector<core::Holder> holders = book_.holders();
    for (const core::Holder& holder : holders) Do(core::PermitChange::kRelease, holder.id);
    Lapse(now.us);
  }

  Fate Release(const Hash128& id, EngineTime now) {
    if (version_ > 0) book_.View(params_, id, now);
    return {book_.Release(id, now), {}};
  }
  Fate Renew(const Hash128& id, Micros lease, EngineTime now) {
    if (version_ == 0) return {};
    book_.View(params_, id, now);
    Fate fate{book_.Renew(id, core::LeaseUnder(params_.period, lease), now), {}};
    for (const core::Holder& holder : book_.holders()) {
      if (holder.id != id || fate.fate != core::PermitFate::kRenewed) continue;
      fate.left = holder.expires_at - now;
      LapseHolder(holder.expires_at);
    }
    return fate;
  }
  Fate Leave(const Hash128& id, EngineTime now) {
    if (version_ == 0) return {};
    const bool waits = book_.View(params_, id, now).waits;
    Do(core::PermitChange::kLeave, id);
    return {waits ? core::PermitFate::kReleased : core::PermitFate::kUnknown, {}};
  }
  // Who of this session may ask now, in their order.
  std::vector<Hash128> Turns(uint64_t session, EngineTime now) {
    std::vector<Hash128> own;
    if (version_ == 0) return own;
    book_.View(params_, {}, now);
    if (book_.waiters().empty()) return own;
    said_[session] = now.us;
    Lapse(now.us + 3'000'000);
    PruneHead(session, true, now);
    int64_t room = params_.capacity - book_.in_use(now);
    size_t fit = 0;
    if (room <= 0) return own;
    for (const core::testing::PermitBook::Waiter& waiter : book_.waiters()) {
      const auto& [whose, weight] = waits_[waiter.id];
      if (!Lives(whose, session, true, now)) continue;
      room -= weight;
      if (room < 0 || fit == 16) break;
      ++fit;
      if (whose == session) own.push_back(waiter.id);
    }
    return own;
  }
  bool AnybodyWaits() const { return !book_.waiters().empty(); }

  engine::HolderList List(const std::string& only, bool sums_only, uint64_t session, EngineTime now) {
    View({}, session, true, now);
    engine::HolderList list;
    list.in_use = list.held = book_.in_use(now);
    for (const core::testing::PermitBook::Waiter& waiter : book_.waiters())
      list.waiting += Lives(waits_[waiter.id].first, session, true, now) ? 1 : 0;
    for (const core::Holder& holder : book_.holders()) {
      const std::string name = names_.contains(holder.id) ? names_[holder.id] : "";
      if (holder.expires_at <= now || sums_only || (!only.empty() && only != name)) continue;
      list.entries.push_back(
          {holder.id, static_cast<uint32_t>(holder.weight), holder.fence, holder.expires_at - now, name});
    }
    return list;
  }

  // Whether the store must still know its version.
  bool Lives(EngineTime now) const {
    return version_ == limit().version &&
           std::ranges::any_of(book_.holders(),
                               [&](const core::Holder& holder) { return holder.expires_at > now; });
  }
  bool Holds(const Hash128& id, EngineTime now) const {
    return std::ranges::any_of(book_.holders(), [&](const core::Holder& holder) {
      return holder.id == id && holder.expires_at > now;
    });
  }

  // Instants at which something lapses: expiries, what is forgotten, words. The clock does not go back over one that it
  // has passed, since the store counts out what it sees expired.
  const std::set<int64_t>& lapses() const { return lapses_; }
  void Lapse(int64_t at) { lapses_.insert(at); }

 private:
  void LapseHolder(EngineTime at) {
    Lapse(at.us);
    for (const auto& version : versions) Lapse(at.us + version->params.period.count);
  }
  // Whether a session's word holds; `asks` gives it by asking.
  bool Lives(uint64_t session, uint64_t asks, bool word, EngineTime now) {
    if (word && session == asks) return true;
    const auto said = said_.find(session);
    return said != said_.end() && now.us - said->second < 3'000'000;
  }
  void PruneHead(uint64_t session, bool word, EngineTime now) {
    while (!book_.waiters().empty()) {
      const Hash128 first = book_.waiters().front().id;
      if (Lives(waits_[first].first, session, word, now)) return;
      Do(core::PermitChange::kLeave, first);
    }
  }
  void Do(core::PermitChange change, const Hash128& id) {
    core::BucketEdit edit;
    edit.write = true;
    edit.permit = change;
    edit.state.before = fence_;
    book_.Apply(edit, {}, {.id = id});
  }

  core::testing::StoredBucket rate_;
  core::testing::PermitBook book_;
  core::Version version_ = 0;  // 0: never written
  core::LimitParams params_;   // it was last written with
  core::LimitParams found_;
  int64_t fence_ = 0;
  std::map<Hash128, std::string> names_;
  std::map<Hash128, std::pair<uint64_t, int64_t>> waits_;  // whose session, and for how much
  std::map<uint64_t, int64_t> said_;
  std::set<int64_t> lapses_;
};

}  // namespace penstock::fixtures
