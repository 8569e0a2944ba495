// The answer. A Decision is plain data with room for eight limits inline; a ninth goes to the heap.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/error.h"
#include "penstock/outcome.h"

namespace penstock {

// One limit's part in a decision. Trivial on purpose: the inline room of a Decision is not cleared a call.
struct LimitDecision {
  std::string_view name;                  // valid as long as the limiter (or server) that answered
  std::string_view unit;                  // likewise
  int64_t limit;                          // capacity in whole units of cost; -1 = unlimited
  int64_t remaining;                      // 0 <= remaining <= limit; -1 = unlimited
  int64_t taken;                          // charged by this request
  std::chrono::microseconds retry_after;  // denied: refused before this, admitted at it; 0 otherwise
  std::chrono::microseconds reset_after;  // until no use is left
  std::chrono::microseconds window;       // time to refill the whole capacity (RateLimit-Policy's w)
  Outcome outcome;
  bool shadow;     // observed only; never part of the top-level answer
  bool saturated;  // use was held at the largest number that stays exact
  bool degraded;   // decided without the engine
  // Permit limits, where this request was granted a permit; 0 otherwise.
  int64_t fence;                         // greater than that of every earlier grant of the bucket
  std::chrono::microseconds expires_in;  // of the lease
};

class LimitDecisions {
 public:
  static constexpr size_t kInline = 8;

  LimitDecisions() {}  // not defaulted: a value-initialised Decision must not clear the inline room
  LimitDecisions(const LimitDecisions& other) : size_(other.size_), overflow_(other.overflow_) {
    Take(other);
  }
  LimitDecisions(LimitDecisions&& other) noexcept
      : size_(std::exchange(other.size_, 0)), overflow_(std::move(other.overflow_)) {
    Take(other);
  }
  LimitDecisions& operator=(const LimitDecisions& other) {
    size_ = other.size_;
    overflow_ = other.overflow_;
    Take(other);
    return *this;
  }
  LimitDecisions& operator=(LimitDecisions&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    overflow_ = std::move(other.overflow_);
    Take(other);
    return *this;
  }
  ~LimitDecisions() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const LimitDecision& operator[](size_t i) const {
    return i < kInline ? inline_[i] : overflow_[i - kInline];
  }
  LimitDecision& operator[](size_t i) { return i < kInline ? inline_[i] : overflow_[i - kInline]; }
  // A new last element, its fields unset.
  LimitDecision& Append() {
    if (size_ < kInline) return inline_[size_++];
    overflow_.resize(++size_ - kInline);
    return overflow_.back();
  }
  void Clear() {
    size_ = 0;
    overflow_.clear();
  }

 private:
  // Copies the inline elements that are set, no more; size_ is already other's.
  void Take(const LimitDecisions& other) {
    std::copy_n(other.inline_.begin(), std::min(size_, kInline), inline_.begin());
  }

  // overflow_ holds the elements from kInline on; size_ counts both.
  size_t size_ = 0;
  std::array<LimitDecision, kInline> inline_;
  std::vector<LimitDecision> overflow_;
};

struct TakenUnit {
  std::string_view unit;
  int64_t taken;
};

// A permit's id as text, opaque to its owner: enough to renew and to release it.
class PermitText {
 public:
  static constexpr size_t kMaxBytes = 284;

  // Takes the first kMaxBytes bytes.
  constexpr void Assign(std::string_view text) {
    size_ = static_cast<uint16_t>(std::min(text.size(), kMaxBytes));
    std::copy_n(text.begin(), size_, bytes_.begin());
  }
  constexpr std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  uint16_t size_ = 0;
  std::array<char, kMaxBytes> bytes_;
};

// What was granted: one permit over all permit limits of the request. The owner's deadline is his monotonic time before
// he asked, plus waited, plus expires_in, minus the larger of 50 ms and a twentieth of the lease.
struct PermitGrant {
  PermitText id;
  std::optional<int64_t> fence;          // where one limit granted; each one's own stands in LimitDecision
  std::chrono::microseconds expires_in;  // the earliest
  std::chrono::microseconds waited;      // in a queue
};

// Why an answer is `unavailable` or degraded.
enum class Reason : unsigned char {
  kNone,
  kTimeout,     // the engine did not answer within the time-out
  kEngineDown,  // it refused, or its breaker is open
  kFull,        // the table of keys is full of keys in use
  kOverload,    // a bounded queue is full
  kShuttingDown,
  kStale,  // the store holds a newer policy than the one at hand, and it did not arrive in time
};

constexpr std::string_view ToString(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kTimeout:
      return "timeout";
    case Reason::kEngineDown:
      return "engine_down";
    case Reason::kFull:
      return "full";
    case Reason::kOverload:
      return "overload";
    case Reason::kShuttingDown:
      return "shutting_down";
    case Reason::kStale:
      return "stale";
  }
  return "none";
}

struct Decision {
  bool allowed = false;
  Outcome outcome = Outcome::kUnavailable;
  bool degraded = false;
  bool replayed = false;   // the first answer to this request id, given again
  bool replayable = true;  // false: the id could not be kept
  bool saturated = false;
  Reason reason = Reason::kNone;
  std::optional<int64_t> limit;  // of the limit that decides; none when nothing finite matched
  std::optional<int64_t> remaining;
  std::optional<std::chrono::microseconds> retry_after;  // 0 when allowed; none for `never` and `unavailable`
  std::chrono::microseconds reset_after{0};
  std::chrono::microseconds wait{0};  // allowed, but only after this (max_wait)
  LimitDecisions limits;              // every limit that applied, in the policy's order
  std::optional<PermitGrant> permit;  // a permit was granted, and is to be given back
  // Filled for `partial` only. A unit that no enforced limit counts is not listed: all of it may be used.
  std::vector<TakenUnit> taken;
  // The request itself was wrong (unknown domain, a cost out of range, an id in use by another request): nothing was
  // decided and nothing changed. `allowed` is false then.
  std::optional<Error> error;
};

}  // namespace penstock
