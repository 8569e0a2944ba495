// A permit is a held unit of a limit: it is granted for a lease, may be renewed, and is given back or expires. This
// header has the words of a permit's life; permits.h has the rules by which one is granted.
//
// A bucket's state is the set of its holders. An engine keeps each of them until one lease after its expiry, so that a
// late release or renewal is told `expired` and not `unknown`, and keeps a queue of those who wait, in the order in
// which they came.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/hash.h"
#include "base/time.h"

namespace penstock::core {

// Of one bucket. A permit over several limits stands in each of their buckets under the same id.
struct Holder {
  Hash128 id;
  EngineTime expires_at;
  int64_t weight = 0;  // 1 or more
  int64_t fence = 0;   // grows with every grant of the bucket, over its expiry too

  friend bool operator==(const Holder&, const Holder&) = default;
};

// The unexpired holders of a bucket in ascending order of expiry.
class HolderOrder {
 public:
  virtual ~HolderOrder() = default;
  // The first one (null), or the one after; null: no more.
  virtual const Holder* Next(const Holder* after) const = 0;
};

// What a request brings along to hold. The same in all its repeats.
struct PermitAsk {
  Hash128 id;                 // of the permit to be: random, made by the server
  Micros lease{};             // at most the limit's; 0 = the limit's own
  std::string_view holder{};  // a name for people
  // Where permits alone refuse: stand in the queue at most so long, from now on; 0 = do not.
  Micros queue_for{};
};

// Beyond a decision's writes of state: what happens to the holders and the queue of the bucket.
enum class PermitChange : uint8_t {
  kNone,
  kGrant,    // the asker holds, as Operation::charge says (HolderOf), and stands in the queue no more
  kRelease,  // the asker's permit is given back
  kQueue,    // the asker stands in the queue: in his old place where he has one, at the tail else
  kLeave,    // he does no longer
};

// What came of a release or a renewal.
enum class PermitFate : uint8_t {
  kReleased,
  kRenewed,
  kExpired,      // its lease ran out; known for one more lease
  kUnknown,      // never granted, given back, or expired longer ago than that
  kUnavailable,  // could not be asked
};

constexpr std::string_view ToString(PermitFate fate) {
  switch (fate) {
    case PermitFate::kReleased:
      return "released";
    case PermitFate::kRenewed:
      return "renewed";
    case PermitFate::kExpired:
      return "expired";
    case PermitFate::kUnknown:
      return "unknown";
    case PermitFate::kUnavailable:
      return "unavailable";
  }
  return "unavailable";
}

// Of a permit over several buckets: that of the bucket where it fared worst. Unavailable > expired > unknown > done, so
// that "done" is true of all of them, and a permit that was lost in one is not told as if it had never been.
constexpr PermitFate Together(PermitFate a, PermitFate b) {
  constexpr auto kRank = [](PermitFate fate) {
    switch (fate) {
      case PermitFate::kReleased:
      case PermitFate::kRenewed:
        return 0;
      case PermitFate::kUnknown:
        return 1;
      case PermitFate::kExpired:
        return 2;
      case PermitFate::kUnavailable:
        return 3;
    }
    return 3;
  };
  return kRank(a) >= kRank(b) ? a : b;
}

// The lease that is granted: what was asked for, never longer than the limit's.
constexpr Micros LeaseUnder(Micros limit, Micros asked) {
  return asked.count <= 0 ? limit : std::min(limit, asked);
}

// A release that meets `found` (null: nobody under that id). It changes the bucket only where it says kReleased.
constexpr PermitFate Released(const Holder* found, EngineTime now) {
  if (found == nullptr) return PermitFate::kUnknown;
  return found->expires_at > now ? PermitFate::kReleased : PermitFate::kExpired;
}

struct Renewal {
  PermitFate fate = PermitFate::kUnknown;
  EngineTime expires_at;  // kRenewed: from now on; never earlier than before
};

// A renewal that meets `found`: only what is held and unexpired is renewed, and never shortened.
constexpr Renewal Renewed(const Holder* found, Micros lease, EngineTime now) {
  if (found == nullptr) return {};
  if (found->expires_at <= now) return {PermitFate::kExpired, found->expires_at};
  return {PermitFate::kRenewed, std::max(found->expires_at, now + lease)};
}

}  // namespace penstock::core
