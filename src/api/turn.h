// A handler's share of a turn of the event loop: what is answered while a read batch is handled leaves with it; what
// is answered later must wake its connection. Also times decisions, with two clock reads a batch.
//
// Thread contract: one event loop; the histogram is read by any thread.
#pragma once

#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/histogram.h"
#include "service/decider.h"

namespace penstock::api {

class Turn {
 public:
  Turn(service::Decider& decider, const Clock& clock) : decider_(decider), clock_(clock) {}

  // Around the handling of one request.
  template <class Handle>
  void Run(Handle&& handle) {
    inside_ = true;
    std::forward<Handle>(handle)();
    inside_ = false;
  }

  void Submit(const service::Request& request, service::Receiver& receiver, uint64_t token) {
    if (submitted_++ == 0) begin_ = clock_.Steady();
    decider_.Submit(request, receiver, token);
  }

  void Flush() {
    if (submitted_ == 0) return;
    submitted_ = 0;
    decided_ = 0;
    Run([this] { decider_.Flush(); });
    if (decided_ > 0) latency_.Record(clock_.Steady() - begin_, decided_);
  }

  // A decision came for what was submitted at `begin`, which is what begin() said then.
  void Decided(SteadyTime begin) {
    if (inside_) {
      ++decided_;
    } else {
      latency_.Record(clock_.Steady() - begin, 1);
    }
  }
  SteadyTime begin() const { return begin_; }

  // Writes an answer; `write` as the session takes it.
  template <class Slot, class Write>
  void Answer(const Slot& slot, Write&& write) {
    slot.session->Answer(slot.ticket, std::forward<Write>(write));
    if (!inside_) slot.peer->ReplyReady();
  }

  service::Decider& decider() { return decider_; }
  const LatencyHistogram& latency() const { return latency_; }

 private:
  service::Decider& decider_;
  const Clock& clock_;
  LatencyHistogram latency_;
  SteadyTime begin_;        // of the batch that is gathered or decided now
  uint64_t submitted_ = 0;  // since the last Flush
  uint64_t decided_ = 0;    // inside this Flush
  bool inside_ = false;
};

}  // namespace penstock::api
