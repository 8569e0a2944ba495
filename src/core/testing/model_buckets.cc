// The four algorithms of the judge: a token bucket as an exact fraction, windows as maps, the log as a plain list.
#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <map>
#include <vector>

#include "core/testing/model_bucket.h"

namespace penstock::core::testing {
namespace {

using Int = boost::multiprecision::checked_int256_t;

const Int kModelLargest = Int(1) << 52;

Int Ceil(const Int& dividend, const Int& divisor) { return (dividend + divisor - 1) / divisor; }
int64_t Narrow(const Int& value) { return static_cast<int64_t>(value); }

constexpr int64_t kTicksUs[] = {1, 1'000, 1'000'000};

// The debt in tokens is debt_ / period_ticks_: each tick `count_` of these parts drain away.
class TokenModel final : public ModelBucket {
 public:
  explicit TokenModel(const ModelSpec& spec) { Set(spec); }
  std::unique_ptr<ModelBucket> Clone() const override { return std::make_unique<TokenModel>(*this); }

  int64_t Capacity() const override { return burst_; }
  int64_t OwnNow(int64_t at) const override { return written_ ? std::max(at, stamp_) : at; }
  bool Fits(int64_t at, int64_t cost) const override {
    return DebtAt(at) + Int(cost) * period_ticks_ <= Int(burst_) * period_ticks_;
  }
  int64_t FirstFit(int64_t at, int64_t cost) const override {
    return FirstWithDebt(at, (Int(burst_) - cost) * period_ticks_);
  }
  int64_t NoUseFrom(int64_t at) const override { return FirstWithDebt(at, 0); }

  bool Charge(int64_t at, int64_t cost, ModelCharge& charge) override {
    Settle(at);
    charge = {.at_us = stamp_, .whole = Narrow(debt_ / period_ticks_), .rest = Narrow(debt_ % period_ticks_)};
    charge.cost = cost;
    return Add(cost);
  }
  int64_t Refund(int64_t at, int64_t cost, ModelCharge& charge) override {
    const Int used = Ceil(DebtAt(at), period_ticks_);
    if (used == 0) return 0;
    Settle(at);
    charge = {.at_us = stamp_, .whole = Narrow(debt_ / period_ticks_), .rest = Narrow(debt_ % period_ticks_)};
    const int64_t back = used < cost ? Narrow(used) : cost;
    debt_ = std::max(Int(0), Int(debt_ - Int(back) * period_ticks_));
    charge.cost = -back;
    return back;
  }
  bool Adjust(int64_t at, const ModelCharge& charge, int64_t delta) override {
    if (delta > 0) {
      Settle(at);
      return Add(delta);
    }
    Int left = (Int(charge.whole) + charge.cost) * period_ticks_ + charge.rest;
    if (left > kModelLargest * divisor_) left = MostTokens() * period_ticks_;
    const int64_t now = std::max(OwnNow(at), charge.at_us);
    left -= count_ * (Int(now / tick_) - charge.at_us / tick_);
    left = std::clamp<Int>(left, 0, Int(-delta) * period_ticks_);
    if (left == 0 || DebtAt(at) == 0) return false;
    Settle(at);
    debt_ = std::max(Int(0), Int(debt_ - left));
    return false;
  }
  bool Convert(int64_t at, const ModelSpec& spec) override {
    const Int old_count = count_ / divisor_, old_period = period_ticks_ / divisor_;
    const int64_t old_tick = tick_;
    Settle(at);
    const Int tokens = Ceil(debt_, period_ticks_);
    const Int units = debt_ / divisor_;
    Set(spec);
    const bool same = old_count == count_ / divisor_ && old_period == period_ticks_ / divisor_;
    if (same && old_tick == tick_) {
      debt_ = units * divisor_;
      return false;
    }
    debt_ = 0;
    return Add(tokens);
  }

 private:
  void Set(const ModelSpec& spec) {
    count_ = spec.count;
    burst_ = spec.burst == 0 ? spec.count : spec.burst;
    for (const int64_t tick : kTicksUs) {
      if (spec.period_us % tick != 0) break;
      tick_ = tick;
      period_ticks_ = spec.period_us / tick;
      divisor_ = boost::multiprecision::gcd(count_, period_ticks_);
      const Int whole = Int(burst_) * period_ticks_ + count_ * (60'000'000 / tick);
      if (whole <= kModelLargest * divisor_) return;
    }
    Require(false, "a token bucket that cannot be exact");
  }
  Int DebtAt(int64_t at) const {
    if (!written_ || at <= stamp_) return debt_;
    return std::max(Int(0), Int(debt_ - count_ * (Int(at / tick_) - stamp_ / tick_)));
  }
  int64_t FirstWithDebt(int64_t at, const Int& parts) const {
    const int64_t from = OwnNow(at);
    const Int excess = DebtAt(at) - parts;
    if (excess <= 0) return from;
    const Int first = (Ceil(excess, count_) + from / tick_) * tick_;
    return Narrow(std::min(first, Int(Int(from) + kModelLongestUs)));
  }
  void Settle(int64_t at) {
    debt_ = DebtAt(at);
    stamp_ = OwnNow(at);
    written_ = true;
  }
  Int MostTokens() const { return kModelLargest / (period_ticks_ / divisor_); }
  bool Add(const Int& tokens) {
    debt_ += tokens * period_ticks_;
    if (debt_ <= kModelLargest * divisor_) return false;
    debt_ = MostTokens() * period_ticks_;
    return true;
  }

  Int count_, period_ticks_, divisor_, debt_ = 0;
  int64_t burst_ = 0, tick_ = 1, stamp_ = 0;
  bool written_ = false;
};

// use_ has the use of each window by its end; a write forgets all windows but its own.
class FixedModel final : public ModelBucket {
 public:
  explicit FixedModel(const ModelSpec& spec) : spec_(spec) {}
  std::unique_ptr<ModelBucket> Clone() const override { return std::make_unique<FixedModel>(*this); }

  int64_t Capacity() const override { return spec_.count; }
  int64_t OwnNow(int64_t at) const override { return at; }
  bool Fits(int64_t at, int64_t cost) const override { return Use(EndAt(at)) + cost <= spec_.count; }
  int64_t FirstFit(int64_t at, int64_t cost) const override { return Fits(at, cost) ? at : EndAt(at); }
  int64_t NoUseFrom(int64_t at) const override { return Use(EndAt(at)) == 0 ? at : EndAt(at); }

  bool Charge(int64_t at, int64_t cost, ModelCharge& charge) override {
    const int64_t end = EndAt(at);
    charge = {.at_us = at, .window_us = end, .cost = cost};
    return Add(end, cost);
  }
  int64_t Refund(int64_t at, int64_t cost, ModelCharge& charge) override {
    const int64_t end = EndAt(at);
    const int64_t back = Narrow(std::min(Use(end), Int(cost)));
    if (back == 0) return 0;
    charge = {.at_us = at, .window_us = end, .cost = -back};
    Add(end, -back);
    return back;
  }
  bool Adjust(int64_t at, const ModelCharge& charge, int64_t delta) override {
    if (at >= charge.window_us) return false;
    const int64_t end = EndAt(at);
    if (Use(end) != 0 && end != charge.window_us) return false;
    if (delta < 0 && Use(end) == 0) return false;
    return Add(charge.window_us, delta);
  }
  bool Convert(int64_t at, const ModelSpec& spec) override {
    const int64_t end = EndAt(at);
    const Int used = Use(end);
    const bool same = spec.kind == ModelKind::kFixedCalendar || spec.period_us == spec_.period_us;
    const int64_t inside = std::max(at, end - spec_.period_us);
    use_.clear();
    spec_ = spec;
    if (used != 0) use_[same ? end : WindowEnd(inside)] = used;
    return false;
  }

 private:
  int64_t WindowEnd(int64_t at) const {
    if (spec_.kind == ModelKind::kFixedFirstRequest) return at + spec_.period_us;
    if (spec_.kind == ModelKind::kFixedCalendar) {
      const auto next =
          std::find_if(spec_.edges.begin(), spec_.edges.end(), [&](int64_t e) { return e > at; });
      Require(next != spec_.edges.end(), "a calendar that is too short");
      return *next;
    }
    return at - at % spec_.period_us + spec_.period_us;
  }
  // The end of the window that counts: one with use that is not over, else that of the clock.
  int64_t EndAt(int64_t at) const {
    for (const auto& [end, used] : use_) {
      if (end > at && used > 0) return end;
    }
    return WindowEnd(at);
  }
  Int Use(int64_t end) const {
    const auto found = use_.find(end);
    return found == use_.end() ? Int(0) : found->second;
  }
  bool Add(int64_t end, const Int& cost) {
    const Int sum = std::max(Int(0), Int(Use(end) + cost));
    use_.clear();
    use_[end] = std::min(sum, kModelLargest);
    return sum > kModelLargest;
  }

  ModelSpec spec_;
  std::map<int64_t, Int> use_;
};

// use_ has the use of each window by its start; written_ is the window that was current at the last write.
class SlidingModel final : public ModelBucket {
 public:
  explicit SlidingModel(const ModelSpec& spec) { Set(spec); }
  std::unique_ptr<ModelBucket> Clone() const override { return std::make_unique<SlidingModel>(*this); }

  int64_t Capacity() const override { return spec_.count; }
  int64_t OwnNow(int64_t at) const override { return std::max(at, StartAt(at)); }
  bool Fits(int64_t at, int64_t cost) const override {
    return FadingAt(at) <= (Int(spec_.count) - cost - Use(StartAt(at))) * ticks_;
  }
  // Tick by tick would be the plain way; the share of the window before falls by a fixed amount each tick.
  int64_t FirstFit(int64_t at, int64_t cost) const override {
    if (Fits(at, cost)) return at;
    for (int64_t start = StartAt(at);; start += spec_.period_us) {
      const Int before = Use(start - spec_.period_us);
      const Int most = (Int(spec_.count) - cost - Use(start)) * ticks_;
      if (most < 0) continue;
      if (before * ticks_ <= most) return start;
      const Int elapsed = Ceil(before * ticks_ - most, before);
      if (elapsed < ticks_) return start + Narrow(elapsed) * tick_;
    }
  }
  int64_t NoUseFrom(int64_t at) const override {
    const int64_t start = StartAt(at);
    if (Use(start) > 0) return start + 2 * spec_.period_us;
    return Use(start - spec_.period_us) > 0 ? start + spec_.period_us : at;
  }

  bool Charge(int64_t at, int64_t cost, ModelCharge& charge) override {
    const int64_t start = StartAt(at);
    charge = {.at_us = std::max(at, start), .window_us = start, .cost = cost};
    return Add(start, start, cost);
  }
  int64_t Refund(int64_t at, int64_t cost, ModelCharge& charge) override {
    const int64_t start = StartAt(at);
    const int64_t back = Narrow(std::min(Use(start), Int(cost)));
    if (back == 0) return 0;
    charge = {.at_us = std::max(at, start), .window_us = start, .cost = -back};
    Add(start, start, -back);
    return back;
  }
  bool Adjust(int64_t at, const ModelCharge& charge, int64_t delta) override {
    const int64_t start = StartAt(at);
    if (charge.window_us != start && charge.window_us != start - spec_.period_us) return false;
    if (delta < 0 && Use(charge.window_us) == 0) return false;
    return Add(start, charge.window_us, delta);
  }
  bool Convert(int64_t at, const ModelSpec& spec) override {
    const int64_t start = StartAt(at);
    if (spec.period_us == spec_.period_us) {
      Set(spec);
      Forget(start);
      bool held = false;
      for (auto& [window, used] : use_) {
        held = held || used > most_;
        used = std::min(used, most_);
      }
      if (Use(start) + Use(start - spec_.period_us) > 0) written_ = start;
      return held;
    }
    const Int sum = Use(start) + Ceil(FadingAt(at), ticks_);
    const int64_t inside = std::max(at, start);
    Set(spec);
    use_.clear();
    written_ = inside - inside % spec_.period_us;
    use_[written_] = std::min(sum, most_);
    return sum > most_;
  }

 private:
  void Set(const ModelSpec& spec) {
    spec_ = spec;
    for (const int64_t tick : kTicksUs) {
      if (spec.period_us % tick != 0) break;
      tick_ = tick;
      ticks_ = spec.period_us / tick;
      most_ = kModelLargest / ticks_;
      if (2 * Int(spec.count) * ticks_ <= kModelLargest) return;
    }
    Require(false, "a sliding window that cannot be exact");
  }
  int64_t StartAt(int64_t at) const {
    const int64_t start = at - at % spec_.period_us;
    const bool counts = Use(written_) > 0 || Use(written_ - spec_.period_us) > 0;
    return counts ? std::max(start, written_) : start;
  }
  Int Use(int64_t start) const {
    const auto found = use_.find(start);
    return found == use_.end() ? Int(0) : found->second;
  }
  // A write in the window of `start` keeps only what still counts then.
  void Forget(int64_t start) {
    std::erase_if(use_, [&](const auto& entry) {
      return entry.first != start && entry.first != start - spec_.period_us;
    });
  }
  // What the window before still weighs, in parts of a period.
  Int FadingAt(int64_t at) const {
    const int64_t start = StartAt(at);
    const Int elapsed = at <= start ? Int(0) : Int(at / tick_) - start / tick_;
    return Use(start - spec_.period_us) * (ticks_ - elapsed);
  }
  bool Add(int64_t start, int64_t window, const Int& cost) {
    const Int sum = std::max(Int(0), Int(Use(window) + cost));
    Forget(start);
    use_[window] = std::min(sum, most_);
    written_ = start;
    return sum > most_;
  }

  ModelSpec spec_;
  int64_t tick_ = 1, written_ = 0;
  Int ticks_, most_;
  std::map<int64_t, Int> use_;
};

class LogModel final : public ModelBucket {
 public:
  explicit LogModel(const ModelSpec& spec) : spec_(spec) {}
  std::unique_ptr<ModelBucket> Clone() const override { return std::make_unique<LogModel>(*this); }

  int64_t Capacity() const override { return spec_.count; }
  int64_t OwnNow(int64_t at) const override { return spent_.empty() ? at : std::max(at, spent_.back().at); }
  bool Fits(int64_t at, int64_t cost) const override { return UseAt(at) + cost <= spec_.count; }
  int64_t FirstFit(int64_t at, int64_t cost) const override {
    if (Fits(at, cost)) return at;
    Int used = UseAt(at);
    for (const Spent& spent : spent_) {
      if (Expired(spent, at)) continue;
      used -= spent.weight;
      if (used + cost <= spec_.count) return spent.at + spec_.period_us;
    }
    return at;
  }
  int64_t NoUseFrom(int64_t at) const override {
    return UseAt(at) == 0 ? at : spent_.back().at + spec_.period_us;
  }

  bool Charge(int64_t at, int64_t cost, ModelCharge& charge) override {
    const int64_t now = OwnNow(at);
    Drop(at);
    charge = {.at_us = now, .cost = cost};
    const Int held = std::min(Int(cost), Int(kModelLargest - UseAt(at)));
    Insert(now, held);
    return held < cost;
  }
  int64_t Refund(int64_t at, int64_t cost, ModelCharge& charge) override {
    if (UseAt(at) == 0) return 0;
    charge = {.at_us = OwnNow(at)};
    Drop(at);
    Int left = cost;
    while (left > 0 && !spent_.empty()) {
      const Int back = std::min(left, spent_.back().weight);
      spent_.back().weight -= back;
      left -= back;
      if (spent_.back().weight == 0) spent_.pop_back();
    }
    charge.cost = Narrow(left - cost);
    return Narrow(cost - left);
  }
  bool Adjust(int64_t at, const ModelCharge& charge, int64_t delta) override {
    const int64_t now = OwnNow(at);
    if (delta < 0) {
      for (Spent& spent : spent_) {
        if (spent.at != charge.at_us || spent.at + spec_.period_us <= now) continue;
        spent.weight -= std::min(spent.weight, Int(-delta));
        DropBefore(now);
        return false;
      }
      return false;
    }
    if (charge.at_us + spec_.period_us <= now) return false;
    Drop(at);
    const Int held = std::min(Int(delta), Int(kModelLargest - UseAt(at)));
    for (Spent& spent : spent_) {
      if (spent.at < charge.at_us) continue;
      spent.weight += held;
      return held < delta;
    }
    Insert(charge.at_us, held);
    return held < delta;
  }
  bool Convert(int64_t at, const ModelSpec& spec) override {
    Drop(at);
    spec_ = spec;
    Drop(at);
    return false;
  }
  bool AdjustsBeforeConvert() const override { return false; }

 private:
  static constexpr size_t kMostRuns = 10'000;
  struct Spent {
    int64_t at;
    Int weight;
  };

  bool Expired(const Spent& spent, int64_t at) const { return spent.at + spec_.period_us <= OwnNow(at); }
  Int UseAt(int64_t at) const {
    Int sum = 0;
    for (const Spent& spent : spent_) {
      if (!Expired(spent, at)) sum += spent.weight;
    }
    return sum;
  }
  void Drop(int64_t at) { DropBefore(OwnNow(at)); }
  void DropBefore(int64_t now) {
    std::erase_if(spent_,
                  [&](const Spent& spent) { return spent.at + spec_.period_us <= now || spent.weight == 0; });
  }
  void Insert(int64_t at, const Int& weight) {
    if (!spent_.empty() && (spent_.back().at == at || spent_.size() == kMostRuns)) {
      spent_.back().at = at;
      spent_.back().weight += weight;
    } else {
      spent_.push_back({at, weight});
    }
  }

  ModelSpec spec_;
  std::vector<Spent> spent_;
};

}  // namespace

std::unique_ptr<ModelBucket> MakeTokenModel(const ModelSpec& spec) {
  return std::make_unique<TokenModel>(spec);
}
std::unique_ptr<ModelBucket> MakeFixedModel(const ModelSpec& spec) {
  return std::make_unique<FixedModel>(spec);
}
std::unique_ptr<ModelBucket> MakeSlidingModel(const ModelSpec& spec) {
  return std::make_unique<SlidingModel>(spec);
}
std::unique_ptr<ModelBucket> MakeLogModel(const ModelSpec& spec) { return std::make_unique<LogModel>(spec); }

}  // namespace penstock::core::testing
