// A permit as its owner must see it: when to renew it, and from when on to believe no more that he holds it. Pure: time
// and the answers of the server go in, what to do comes out; permit_keeper.h does it.
//
// The owner's deadline is his monotonic time before he sent the question that was granted last, plus what it waited, plus
// the lease, minus the larger of 50 ms and a twentieth of the lease: so it lies before the store's own, whatever the way
// there and back took. A renewal is tried at a third of the lease, again and again while nobody answers, until the
// deadline. Once lost, a permit is never held again.
//
// Thread contract: one thread, or under the owner's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "core/permit.h"

namespace penstock::app {

class HeldPermit {
 public:
  enum class Loss : uint8_t {
    kNone,
    kExpired,  // the server says so
    kUnknown,  // the server does not know it: somebody gave it back, or it expired long ago
    kSilence,  // nobody could be asked until the deadline
  };

  // Granted to a question that was sent at `asked_at`.
  HeldPermit(SteadyTime asked_at, Micros waited, Micros lease) { Hold(asked_at + waited, lease); }

  // The first instant at which to ask for renewal.
  SteadyTime renew_at() const { return renew_at_; }
  // The last one at which the permit is surely held.
  SteadyTime deadline() const { return deadline_; }
  Loss loss() const { return loss_; }
  bool held() const { return loss_ == Loss::kNone; }

  // To a renewal that was sent at `asked_at`, known at `now`. `lease` is what is left of the lease, where renewed.
  void Answered(core::PermitFate fate, Micros lease, SteadyTime asked_at, SteadyTime now) {
    if (!StillHeld(now)) return;
    switch (fate) {
      case core::PermitFate::kRenewed:
        Hold(asked_at, lease);
        break;
      case core::PermitFate::kExpired:
        loss_ = Loss::kExpired;
        break;
      case core::PermitFate::kReleased:
      case core::PermitFate::kUnknown:
        loss_ = Loss::kUnknown;
        break;
      case core::PermitFate::kUnavailable:
        renew_at_ = now + std::clamp(Micros{lease_.count / kTriesALease}, kLeastPause, kMostPause);
        break;
    }
  }

  // False from the deadline on; it is lost then.
  bool StillHeld(SteadyTime now) {
    if (held() && now >= deadline_) loss_ = Loss::kSilence;
    return held();
  }

 private:
  static constexpr int64_t kTriesALease = 20;
  static constexpr Micros kLeastPause = Millis(20);
  static constexpr Micros kMostPause = Seconds(1);
  static constexpr Micros kLeastMargin = Millis(50);

  void Hold(SteadyTime from, Micros lease) {
    lease_ = lease;
    // A renewal never shortens, so an earlier promise holds too.
    deadline_ = std::max(deadline_, from + lease - std::max(kLeastMargin, Micros{lease.count / 20}));
    renew_at_ = from + Micros{lease.count / 3};
  }

  Micros lease_;
  SteadyTime deadline_;
  SteadyTime renew_at_;
  Loss loss_ = Loss::kNone;
};

}  // namespace penstock::app
