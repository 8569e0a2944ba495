#include "service/failover/seen_table.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/ticks.h"

namespace penstock::service {
namespace {

constexpr Micros kSameTime = Millis(100);

// `debt` in units that drain away by `idle`; only whole tokens can be told from the verdict, and more than the
// capacity only by the time it takes.
int64_t TokensOf(const core::LimitParams& params, const core::Verdict& verdict, EngineTime now) {
  const int64_t told = params.capacity - verdict.remaining;
  if (verdict.remaining > 0) return told;
  const int64_t ticks =
      core::TickIndex((now + verdict.reset_after).us, params.tick) - core::TickIndex(now.us, params.tick);
  const int64_t most =
      core::BoundedProduct(params.drain, ticks);  // the debt is less than one tick's drain below
  if (most < params.capacity * params.unit_cost + params.drain) return told;
  return core::CeilDiv(most, params.unit_cost);
}

}  // namespace

SeenUse UseOf(const core::Operation& operation, EngineTime now) {
  const core::LimitParams& params = operation.limit->params;
  const core::Verdict& verdict = operation.verdict;
  switch (params.algorithm) {
    case core::Algorithm::kTokenBucket:
      return {now, TokensOf(params, verdict, now), 0};
    case core::Algorithm::kFixedWindow:
    case core::Algorithm::kPermits:
      return {now + verdict.reset_after, params.capacity - verdict.remaining, 0};
    case core::Algorithm::kSlidingLog:
      return {now + verdict.reset_after - params.period, params.capacity - verdict.remaining, 0};
    case core::Algorithm::kSlidingWindow:
      return {operation.edit.state.stamp, operation.edit.state.value, operation.edit.state.before};
  }
  return {};
}

SeenTable::SeenTable(size_t entries) {
  if (entries == 0) return;
  const size_t sets = std::bit_ceil((entries + kWays - 1) / kWays);
  // Zero pages until they are written, and a set does not cross more than two lines.
  auto* const memory = static_cast<Entry*>(std::calloc(sets * kWays, sizeof(Entry)));
  if (memory == nullptr) throw std::bad_alloc();
  entries_.reset(memory);
  set_mask_ = sets - 1;
}

void SeenTable::Note(const Hash128& name, const SeenUse& use) {
  if (entries_ == nullptr) return;
  const size_t set = SetOf(name);
  Entry* const entries = &entries_[set * kWays];
  engine::ShardLock& lock = stripes_[set % kStripes].lock;
  lock.Lock();
  Entry* place = nullptr;
  for (Entry* entry = entries; entry != entries + kWays; ++entry) {
    if (entry->tag == name.high) {
      place = entry;
      break;
    }
    if (place == nullptr || (!IsEmpty(*place) && (IsEmpty(*entry) || entry->use.stamp < place->use.stamp)))
      place = entry;
  }
  const bool none = use.used == 0 && use.before == 0;
  const bool same = place->tag == name.high;
  // Of two loops that hear at the same time the later word counts; a clock that stepped back does not.
  const bool late = same && use.stamp < place->use.stamp && place->use.stamp - use.stamp < kSameTime;
  if ((same || !none) && !late) *place = {name.high, use};
  lock.Unlock();
}

std::optional<SeenUse> SeenTable::Find(const Hash128& name) const {
  if (entries_ == nullptr) return std::nullopt;
  const size_t set = SetOf(name);
  std::optional<SeenUse> found;
  engine::ShardLock& lock = stripes_[set % kStripes].lock;
  lock.Lock();
  for (const Entry* entry = &entries_[set * kWays]; entry != &entries_[(set + 1) * kWays]; ++entry) {
    if (entry->tag == name.high && !IsEmpty(*entry)) found = entry->use;
  }
  lock.Unlock();
  return found;
}

}  // namespace penstock::service
