// Desks that answer as the test says, and remember what they were asked.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "service/decider.h"
#include "service/holder_desk.h"
#include "service/permit_desk.h"

namespace penstock::api {

class FakePermitDesk final : public service::PermitDesk {
 public:
  struct Asked {
    std::string verb, id;
    int64_t lease_ms = 0;
  };

  void Release(std::string_view id, service::PermitReceiver& receiver, uint64_t token) override {
    Ask({"release", std::string(id)}, receiver, token);
  }
  void Renew(std::string_view id, std::chrono::milliseconds lease, service::PermitReceiver& receiver,
             uint64_t token) override {
    Ask({"renew", std::string(id), lease.count()}, receiver, token);
  }
  void Flush() override {
    ++flushes;
    if (on_flush) on_flush();
    if (!hold) Answer();
  }
  void Detach(const service::PermitReceiver& receiver) override {
    std::erase_if(waiting_, [&](const Waiting& w) { return w.receiver == &receiver; });
  }

  void Answer() {
    const std::vector<Waiting> now = std::exchange(waiting_, {});
    for (const Waiting& w : now) w.receiver->PermitAnswered(w.token, answer(asked[w.asked]));
  }
  static service::PermitAnswer Fate(core::PermitFate fate) {
    service::PermitAnswer answer;
    answer.fate = fate;
    if (fate == core::PermitFate::kUnavailable) answer.reason = Reason::kTimeout;
    if (fate == core::PermitFate::kRenewed) answer.expires_in = std::chrono::microseconds(29'999'999);
    return answer;
  }

  std::vector<Asked> asked;
  int flushes = 0;
  bool hold = false;  // Flush answers nothing; the test calls Answer
  std::function<void()> on_flush;
  std::function<service::PermitAnswer(const Asked&)> answer = [](const Asked& a) {
    return Fate(a.verb == "renew" ? core::PermitFate::kRenewed : core::PermitFate::kReleased);
  };

 private:
  struct Waiting {
    service::PermitReceiver* receiver;
    uint64_t token;
    size_t asked;
  };
  void Ask(Asked what, service::PermitReceiver& receiver, uint64_t token) {
    asked.push_back(std::move(what));
    waiting_.push_back({&receiver, token, asked.size() - 1});
  }
  std::vector<Waiting> waiting_;
};

class FakeHolderDesk final : public service::HolderDesk {
 public:
  struct Asked {
    std::string domain, limit, key, holder;
    std::vector<std::pair<std::string, std::string>> attributes;
    bool ad_hoc = false;
  };

  void List(const service::Request& request, std::string_view holder, service::HolderReceiver& receiver,
            uint64_t token) override {
    Asked what{std::string(request.domain),
               std::string(request.only_limit),
               std::string(request.ad_hoc_key),
               std::string(holder),
               {},
               request.ad_hoc && request.ad_hoc->algorithm == core::Algorithm::kPermits};
    for (const Attribute& a : request.attributes) what.attributes.emplace_back(a.name, a.value);
    asked.push_back(std::move(what));
    waiting_.push_back({&receiver, token});
    if (!hold) Answer();
  }
  void Detach(const service::HolderReceiver& receiver) override {
    std::erase_if(waiting_, [&](const Waiting& w) { return w.receiver == &receiver; });
  }

  void Answer() {
    for (const Waiting& w : std::exchange(waiting_, {})) {
      if (error) {
        w.receiver->HoldersListed(w.token, tl::unexpected(*error));
      } else {
        w.receiver->HoldersListed(w.token, &holders);
      }
    }
  }
  // Two of five are held.
  static service::Holders Two() {
    service::Holders holders;
    holders.permits = 5;
    holders.in_use = 3;
    holders.waiting = 4;
    for (const char* const name : {"a", "b"}) {
      service::HolderInfo entry;
      entry.id.Assign(std::string("id-") + name);
      entry.holder = name;
      entry.weight = holders.entries.empty() ? 1 : 2;
      entry.fence = 17 + static_cast<int64_t>(holders.entries.size());
      entry.expires_in = std::chrono::microseconds(1'999'999);
      holders.entries.push_back(entry);
    }
    return holders;
  }

  std::vector<Asked> asked;
  bool hold = false;  // List answers nothing; the test calls Answer
  service::Holders holders = Two();
  std::optional<Error> error;

 private:
  struct Waiting {
    service::HolderReceiver* receiver;
    uint64_t token;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace penstock::api
