// A handler's share of a turn of the event loop: what is answered while a read batch is handled leaves with it; what
// is answered later must wake its connection. Knows all that was asked and is not answered, takes it back when its
// connection closes, and times decisions, with two clock reads a batch.
//
// Thread contract: one event loop; the histogram is read by any thread. Decider and clock outlive it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/ask.h"
#include "api/pending.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "service/decider.h"
#include "service/holder_desk.h"
#include "service/permit_desk.h"

namespace penstock::api {

template <class Slot>
class Turn final : private service::Receiver,
                   private service::PermitReceiver,
                   private service::HolderReceiver {
 public:
  Turn(service::Decider& decider, const Clock& clock) : decider_(decider), clock_(clock) {}
  ~Turn() override {
    decider_.Detach(*this);
    decider_.permits().Detach(*this);
    decider_.permits().Detach(nobody_);
    decider_.holders().Detach(*this);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Around the handling of one request.
  template <class Handle>
  void Run(const Slot& slot, Handle&& handle) {
    current_ = slot.peer;
    inside_ = true;
    std::forward<Handle>(handle)();
    inside_ = false;
  }

  // Each is answered to ask.asker exactly once, unless the connection closes before. Checks, releases and renewals wait
  // for Flush, or FlushCalls.
  void Submit(const service::Request& request, Ask<Slot> ask) {
    if (submitted_++ == 0) begin_ = clock_.Steady();
    ask.kind = Ask<Slot>::Kind::kCheck;
    ask.patient = request.options.max_wait.count() > 0;
    ask.repeatable = !request.options.request_id.empty();
    decider_.Submit(request, *this, Add(std::move(ask)));
  }
  void Release(std::string_view id, Ask<Slot> ask) {
    ++calls_;
    ask.kind = Ask<Slot>::Kind::kCall;
    decider_.permits().Release(id, *this, Add(std::move(ask)));
  }
  void Renew(std::string_view id, std::chrono::milliseconds lease, Ask<Slot> ask) {
    ++calls_;
    ask.kind = Ask<Slot>::Kind::kCall;
    decider_.permits().Renew(id, lease, *this, Add(std::move(ask)));
  }
  // Shows what was done by all that came before it.
  void List(const service::Request& request, std::string_view holder, Ask<Slot> ask) {
    FlushAll();
    ask.kind = Ask<Slot>::Kind::kList;
    decider_.holders().List(request, holder, *this, Add(std::move(ask)));
  }
  // Has releases and renewals done that were asked for outside of Run and Flush; inside, Flush will.
  void FlushCalls() {
    if (inside_ || calls_ == 0) return;
    calls_ = 0;
    decider_.permits().Flush();
  }

  void Flush() {
    inside_ = true;
    FlushAll();
    inside_ = false;
    current_ = nullptr;
    FlushCalls();
  }

  // Writes an answer, as the session takes it; false: nobody is there to hear it.
  template <class Write>
  bool Answer(const Slot& slot, Write&& write) {
    const bool heard = slot.session->Answer(slot.ticket, std::forward<Write>(write));
    if (!inside_ || slot.peer != current_) slot.peer->ReplyReady();
    return heard;
  }

  // The same for a check's answer, which may tell of a permit; or for that of several checks together. A permit of which
  // nobody will hear is given back.
  template <class Write>
  void AnswerCheck(const Ask<Slot>& ask, const Decision& decision, Write&& write) {
    const bool heard = Answer(ask.slot, std::forward<Write>(write));
    if (decision.permit && !MayAskAgain(ask, decision))
      Told(ask.slot, heard, std::string(decision.permit->id.view()));
  }
  template <class Write>
  void AnswerChecks(const Slot& slot, Together& together, Write&& write) {
    const bool heard = Answer(slot, std::forward<Write>(write));
    for (std::string& id : std::exchange(together.permits, {})) Told(slot, heard, std::move(id));
  }

  // The connection closes, its session is not detached yet: nothing that it asked for is answered any more, it leaves the
  // queues, and permits are given back of which it did not hear. Releases and renewals are done all the same.
  void Closed(Peer& peer) {
    if (peer.owed == 0 && held_.empty()) return;
    std::vector<std::string> unheard;
    for (uint64_t token = 0; token < pending_.end(); ++token) {
      Ask<Slot>& ask = pending_.At(token);
      if (ask.slot.peer != &peer) continue;
      if (ask.kind == Ask<Slot>::Kind::kCheck) {
        decider_.Cancel(*this, token);
        if (const Ask<Slot> gone = pending_.Take(token); gone.together != nullptr)
          std::ranges::move(std::exchange(gone.together->permits, {}), std::back_inserter(unheard));
      } else {
        ask.asker = nullptr;
        ask.slot.peer = nullptr;
      }
    }
    peer.owed = peer.patient = 0;
    std::erase_if(held_, [&](Held& held) {
      if (held.slot.peer != &peer) return false;
      if (!held.slot.session->Left(held.slot.ticket)) unheard.push_back(std::move(held.permit));
      return true;
    });
    for (const std::string& permit : unheard) GiveBack(permit);
  }
  // Whether who did not hear of it is told the same permit when he asks again.
  static bool MayAskAgain(const Ask<Slot>& ask, const Decision& decision) {
    return ask.repeatable && decision.replayable;
  }
  // Whether it has asked for something that may be waiting in a queue.
  static bool Waits(const Peer& peer) { return peer.patient > 0; }

  size_t pending() const { return pending_.size(); }
  const LatencyHistogram& latency() const { return latency_; }

 private:
  static constexpr size_t kLeastHeld = 64;
  struct Held {
    Slot slot;
    std::string permit;
  };
  struct Nobody final : service::PermitReceiver {
    void PermitAnswered(uint64_t, const service::PermitAnswer&) noexcept override {}
  };

  uint64_t Add(Ask<Slot> ask) {
    Peer& peer = *ask.slot.peer;
    ++peer.owed;
    if (ask.patient) ++peer.patient;
    ask.begin = begin_;
    return pending_.Add(std::move(ask));
  }
  Ask<Slot> Take(uint64_t token) {
    Ask<Slot> ask = pending_.Take(token);
    if (ask.asker == nullptr) return ask;
    --ask.slot.peer->owed;
    if (ask.patient) --ask.slot.peer->patient;
    return ask;
  }

  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override {
    const Ask<Slot> ask = Take(token);
    if (ask.timed) Time(ask, decision);
    ask.asker->Decided(ask, decision);
  }
  void PermitAnswered(uint64_t token, const service::PermitAnswer& answer) noexcept override {
    const Ask<Slot> ask = Take(token);
    if (ask.asker != nullptr) ask.asker->PermitAnswered(ask, answer);
  }
  void HoldersListed(uint64_t token, const Result<const service::Holders*>& holders) noexcept override {
    const Ask<Slot> ask = Take(token);
    if (ask.asker != nullptr) ask.asker->HoldersListed(ask, holders);
  }
  // The answer with this permit was written, to somebody or nobody. Behind older answers that are still owed it has not
  // left: it is remembered until it has.
  void Told(const Slot& slot, bool heard, std::string permit) {
    if (!heard) return GiveBack(permit);
    if (slot.session->Left(slot.ticket)) return;
    if (held_.size() >= held_bound_) {
      std::erase_if(held_, [](const Held& held) { return held.slot.session->Left(held.slot.ticket); });
      held_bound_ = std::max(kLeastHeld, 2 * held_.size());
    }
    held_.push_back({slot, std::move(permit)});
  }
  void GiveBack(std::string_view permit) {
    ++calls_;
    decider_.permits().Release(permit, nobody_, 0);
    FlushCalls();
  }

  // The wait in a queue is the limit's doing and not ours.
  void Time(const Ask<Slot>& ask, const Result<const Decision*>& decision) {
    if (inside_ && ask.begin == begin_) {
      ++decided_;
      return;
    }
    Micros waited;
    if (decision && (*decision)->permit) waited = {(*decision)->permit->waited.count()};
    latency_.Record(std::max(clock_.Steady() - ask.begin - waited, Micros{}), 1);
  }

  // What is given back is there for the checks of the same batch.
  void FlushAll() {
    if (calls_ > 0) {
      calls_ = 0;
      decider_.permits().Flush();
    }
    if (submitted_ == 0) return;
    submitted_ = 0;
    decided_ = 0;
    decider_.Flush();
    if (decided_ > 0) latency_.Record(clock_.Steady() - begin_, decided_);
  }

  service::Decider& decider_;
  const Clock& clock_;
  LatencyHistogram latency_;
  Nobody nobody_;
  PendingPool<Ask<Slot>> pending_;
  std::vector<Held> held_;  // permits whose answers had not left when last looked at
  size_t held_bound_ = kLeastHeld;
  const Peer* current_ = nullptr;  // whose read batch is handled or flushed now
  SteadyTime begin_;               // of the batch that is gathered or decided now
  uint64_t submitted_ = 0;         // checks since the last flush
  uint64_t calls_ = 0;             // releases and renewals since
  uint64_t decided_ = 0;           // inside this flush
  bool inside_ = false;
};

using HttpTurn = Turn<HttpSlot>;
using RespTurn = Turn<RespSlot>;
using HttpAsk = Ask<HttpSlot>;
using RespAsk = Ask<RespSlot>;

}  // namespace penstock::api
