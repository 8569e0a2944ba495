// A decider that answers as the test says, at Flush or when the test lets it, and remembers what it was asked.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/handler.h"
#include "api/testing/fake_desks.h"
#include "service/decider.h"

namespace penstock::api {

class FakeDecider final : public service::Decider {
 public:
  // What a request looked like, copied out of its views.
  struct Asked {
    engine::Mode mode;
    bool look;
    std::string domain;
    std::vector<std::pair<std::string, std::string>> attributes;
    std::vector<std::pair<std::string, int64_t>> costs;
    std::optional<core::RateSpec> ad_hoc;
    std::string ad_hoc_key;
    std::string only_limit;
    int64_t cost;
    int64_t max_wait_ms;
    bool force;
    bool partial;
    std::string request_id;
    int64_t weight;
    int64_t lease_ms;
    std::string holder;
    bool without_permits;
  };

  void Submit(const service::Request& r, service::Receiver& receiver, uint64_t token) override {
    Asked asked{r.mode,
                r.look,
                std::string(r.domain),
                {},
                {},
                r.ad_hoc,
                std::string(r.ad_hoc_key),
                std::string(r.only_limit),
                r.options.cost,
                r.options.max_wait.count(),
                r.options.force,
                r.options.partial,
                std::string(r.options.request_id),
                r.options.weight,
                r.options.lease.count(),
                std::string(r.options.holder),
                r.without_permits};
    for (const Attribute& a : r.attributes) asked.attributes.emplace_back(a.name, a.value);
    for (const UnitCost& c : r.options.costs) asked.costs.emplace_back(c.unit, c.cost);
    asked_.push_back(std::move(asked));
    waiting_.push_back({&receiver, token, asked_.size() - 1});
  }
  void Flush() override {
    if (hold) return;
    const auto stays = [&](const Waiting& w) { return waits(asked_[w.asked]); };
    const auto first = std::stable_partition(waiting_.begin(), waiting_.end(), std::not_fn(stays));
    ReleaseFirst(static_cast<size_t>(first - waiting_.begin()));
  }
  void Detach(const service::Receiver& receiver) override {
    std::erase_if(waiting_, [&](const Waiting& w) { return w.receiver == &receiver; });
  }

  void Cancel(const service::Receiver& receiver, uint64_t token) override {
    cancelled += std::erase_if(waiting_,
                               [&](const Waiting& w) { return w.receiver == &receiver && w.token == token; });
  }
  FakePermitDesk& permits() override { return permits_; }
  FakeHolderDesk& holders() override { return holders_; }

  // Answers everything that waits, or what was asked first of it.
  void Release() { ReleaseFirst(waiting_.size()); }
  void ReleaseFirst(size_t count) {
    const std::vector<Waiting> now(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
    for (const Waiting& w : now) {
      const Result<Decision> decision = answer(asked_[w.asked]);
      if (decision) {
        w.receiver->Decided(w.token, &*decision);
      } else {
        w.receiver->Decided(w.token, tl::unexpected(decision.error()));
      }
    }
  }

  const std::vector<Asked>& asked() const { return asked_; }

  size_t cancelled = 0;
  std::function<bool(const Asked&)> waits = [](const Asked&) { return false; };  // not answered by Flush
  bool hold = false;  // Flush answers nothing; the test calls Release
  std::function<Result<Decision>(const Asked&)> answer = [](const Asked&) { return Allowed(); };

  static Decision Allowed() {
    Decision d;
    d.allowed = true;
    d.outcome = Outcome::kAllowed;
    d.limit = 20;
    d.remaining = 19;
    d.retry_after = std::chrono::microseconds(0);
    d.reset_after = std::chrono::microseconds(599'001);
    Append(d, Outcome::kAllowed);
    return d;
  }
  // One permit limit, which granted.
  static Decision Granted(std::string_view id = "permit-1") {
    Decision d = Allowed();
    d.limits[0].fence = 17;
    d.limits[0].expires_in = std::chrono::microseconds(29'999'999);
    PermitGrant grant{};
    grant.id.Assign(id);
    grant.fence = 17;
    grant.expires_in = std::chrono::microseconds(29'999'999);
    grant.waited = std::chrono::microseconds(1'500'999);
    d.permit = grant;
    return d;
  }
  static Decision Denied() {
    Decision d = Allowed();
    d.allowed = false;
    d.outcome = Outcome::kDenied;
    d.remaining = 0;
    d.retry_after = std::chrono::microseconds(1'000'001);
    d.limits.Clear();
    Append(d, Outcome::kDenied);
    return d;
  }
  static Decision Never() {
    Decision d = Denied();
    d.outcome = Outcome::kNever;
    d.retry_after.reset();
    d.limits.Clear();
    Append(d, Outcome::kNever);
    return d;
  }
  static Decision Unavailable() {
    Decision d;
    d.outcome = Outcome::kUnavailable;
    d.degraded = true;
    d.reason = Reason::kFull;
    return d;
  }

 private:
  struct Waiting {
    service::Receiver* receiver;
    uint64_t token;
    size_t asked;
  };

  static void Append(Decision& d, Outcome outcome) {
    LimitDecision& limit = d.limits.Append();
    limit = {};
    limit.name = "per-user";
    limit.unit = "requests";
    limit.limit = 20;
    limit.remaining = *d.remaining;
    limit.retry_after = d.retry_after.value_or(std::chrono::microseconds(0));
    limit.reset_after = d.reset_after;
    limit.window = std::chrono::seconds(12);
    limit.outcome = outcome;
  }

  FakePermitDesk permits_;
  FakeHolderDesk holders_;
  std::vector<Asked> asked_;
  std::vector<Waiting> waiting_;
};

class FakePeer final : public Peer {
 public:
  void ReplyReady() noexcept override { ++woken; }
  const IpAddress* address() const override { return has_address ? &ip : nullptr; }

  int woken = 0;
  bool has_address = true;
  IpAddress ip = *ParseAddress("127.0.0.1");
};

}  // namespace penstock::api
