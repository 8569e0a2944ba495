// The smallest engine of permits: one bucket whose holders and queue stand in plain vectors, edits carried out to the
// letter. For tests of the rules, and the judge of the engines.
#pragma once

#include <algorithm>
#include <vector>

#include "core/group.h"
#include "core/permits.h"

namespace penstock::core::testing {

class PermitBook final : public HolderOrder {
 public:
  struct Waiter {
    Hash128 id;
    EngineTime until;
  };

  // What an engine hands to the rules for this asker; valid until the next Apply.
  BucketView View(const LimitParams& params, const Hash128& asker, EngineTime now) {
    now_ = now;
    std::erase_if(waiters_, [now](const Waiter& waiter) { return waiter.until <= now; });
    std::erase_if(holders_, [&](const Holder& holder) { return holder.expires_at + params.period <= now; });
    std::sort(holders_.begin(), holders_.end(),
              [](const Holder& a, const Holder& b) { return a.expires_at < b.expires_at; });
    if (holders_.empty() && waiters_.empty() && fence_ == 0) return {};
    BucketView view{.present = true, .version = 1, .params = &params};
    view.state = {holders_.empty() ? EngineTime{} : holders_.back().expires_at, in_use(now), fence_};
    view.holders = this;
    view.own = Find(asker);
    view.waits = Waits(asker);
    view.overtakes = !waiters_.empty() && !(waiters_.front().id == asker);
    return view;
  }

  void Apply(const BucketEdit& edit, const Charge& charge, const PermitAsk& ask) {
    if (!edit.write) return;
    fence_ = edit.state.before;
    switch (edit.permit) {
      case PermitChange::kNone:
        break;
      case PermitChange::kGrant:
        holders_.push_back(HolderOf(charge, ask.id));
        Leave(ask.id);
        break;
      case PermitChange::kRelease:
        Erase(ask.id);
        break;
      case PermitChange::kQueue:
        if (!Waits(ask.id)) waiters_.push_back({ask.id, {}});
        for (Waiter& waiter : waiters_) {
          if (waiter.id == ask.id) waiter.until = now_ + ask.queue_for;
        }
        break;
      case PermitChange::kLeave:
        Leave(ask.id);
        break;
    }
  }

  PermitFate Release(const Hash128& id, EngineTime now) {
    const PermitFate fate = Released(Find(id), now);
    if (fate == PermitFate::kReleased) Erase(id);
    return fate;
  }
  PermitFate Renew(const Hash128& id, Micros lease, EngineTime now) {
    const Renewal renewal = Renewed(Find(id), lease, now);
    for (Holder& holder : holders_) {
      if (holder.id == id && renewal.fate == PermitFate::kRenewed) holder.expires_at = renewal.expires_at;
    }
    return renewal.fate;
  }

  int64_t in_use(EngineTime now) const {
    int64_t used = 0;
    for (const Holder& holder : holders_) used += holder.expires_at > now ? holder.weight : 0;
    return used;
  }
  const std::vector<Holder>& holders() const { return holders_; }
  const std::vector<Waiter>& waiters() const { return waiters_; }

  const Holder* Next(const Holder* after) const override {
    size_t i = after == nullptr ? 0 : static_cast<size_t>(after - holders_.data()) + 1;
    while (i < holders_.size() && holders_[i].expires_at <= now_) ++i;
    return i < holders_.size() ? &holders_[i] : nullptr;
  }

 private:
  const Holder* Find(const Hash128& id) const {
    const auto found =
        std::find_if(holders_.begin(), holders_.end(), [&](const Holder& h) { return h.id == id; });
    return found == holders_.end() ? nullptr : &*found;
  }
  bool Waits(const Hash128& id) const {
    return std::any_of(waiters_.begin(), waiters_.end(), [&](const Waiter& w) { return w.id == id; });
  }
  void Erase(const Hash128& id) {
    std::erase_if(holders_, [&](const Holder& h) { return h.id == id; });
  }
  void Leave(const Hash128& id) {
    std::erase_if(waiters_, [&](const Waiter& w) { return w.id == id; });
  }

  EngineTime now_;
  int64_t fence_ = 0;
  std::vector<Holder> holders_;  // in order of expiry while a view is out
  std::vector<Waiter> waiters_;  // in the order in which they came
};

}  // namespace penstock::core::testing
