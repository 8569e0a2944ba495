// A decider that answers as the test says, at Flush or when the test lets it, and remembers what it was asked.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/handler.h"
#include "service/decider.h"
#include "service/holder_desk.h"
#include "service/permit_desk.h"

namespace penstock::api {

// Answers at once, as the test says.
class FakePermitDesk final : public service::PermitDesk {
 public:
  struct Call {
    bool renew;
    std::string id;
    int64_t lease_ms;
  };

  void Release(std::string_view id, service::PermitReceiver& receiver, uint64_t token) override {
    Add({false, std::string(id), 0}, receiver, token);
  }
  void Renew(std::string_view id, std::chrono::milliseconds lease, service::PermitReceiver& receiver,
             uint64_t token) override {
    Add({true, std::string(id), lease.count()}, receiver, token);
  }
  void Flush() override {
    if (hold) return;
    for (const Waiting& w : std::exchange(waiting_, {}))
      w.receiver->PermitAnswered(w.token, answer(calls[w.call]));
  }
  void Detach(const service::PermitReceiver& receiver) override {
    std::erase_if(waiting_, [&](const Waiting& w) { return w.receiver == &receiver; });
  }

  std::vector<Call> calls;
  bool hold = false;
  std::function<service::PermitAnswer(const Call&)> answer = [](const Call& call) {
    return service::PermitAnswer{call.renew ? core::PermitFate::kRenewed : core::PermitFate::kReleased,
                                 Reason::kNone, std::chrono::milliseconds(call.lease_ms)};
  };

 private:
  struct Waiting {
    service::PermitReceiver* receiver;
    uint64_t token;
    size_t call;
  };
  void Add(Call call, service::PermitReceiver& receiver, uint64_t token) {
    calls.push_back(std::move(call));
    waiting_.push_back({&receiver, token, calls.size() - 1});
  }
  std::vector<Waiting> waiting_;
};

class FakeHolderDesk final : public service::HolderDesk {
 public:
  void List(const service::Request& request, std::string_view holder, service::HolderReceiver& receiver,
            uint64_t token) override {
    asked = {std::string(request.domain), std::string(request.only_limit), std::string(request.ad_hoc_key),
             std::string(holder)};
    const Result<service::Holders> holders = answer();
    if (holders) {
      receiver.HoldersListed(token, &*holders);
    } else {
      receiver.HoldersListed(token, tl::unexpected(holders.error()));
    }
  }
  void Detach(const service::HolderReceiver&) override {}

  struct Asked {
    std::string domain, limit, ad_hoc_key, holder;
  };
  Asked asked;
  std::function<Result<service::Holders>()> answer = [] { return service::Holders{}; };
};

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
                std::string(r.options.request_id)};
    for (const Attribute& a : r.attributes) asked.attributes.emplace_back(a.name, a.value);
    for (const UnitCost& c : r.options.costs) asked.costs.emplace_back(c.unit, c.cost);
    asked_.push_back(std::move(asked));
    waiting_.push_back({&receiver, token, asked_.size() - 1});
  }
  void Flush() override {
    if (!hold) Release();
  }
  void Detach(const service::Receiver& receiver) override {
    std::erase_if(waiting_, [&](const Waiting& w) { return w.receiver == &receiver; });
  }
  void Cancel(const service::Receiver& receiver, uint64_t token) override {
    std::erase_if(waiting_, [&](const Waiting& w) { return w.receiver == &receiver && w.token == token; });
  }
  service::PermitDesk& permits() override { return permit_desk; }
  service::HolderDesk& holders() override { return holder_desk; }

  // Answers everything that waits.
  void Release() {
    const std::vector<Waiting> now = std::exchange(waiting_, {});
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

  FakePermitDesk permit_desk;
  FakeHolderDesk holder_desk;
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
