#include "service/metrics.h"

#include "service/names.h"

namespace penstock::service {

LoopCounters::~LoopCounters() {
  for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
}

LoopCounters::Chunk* LoopCounters::AddChunk(size_t index) {
  auto* chunk = new Chunk();
  chunks_[index].store(chunk, std::memory_order_release);
  return chunk;
}

Metrics::Metrics() {
  MutexLock lock(mutex_);
  names_.push_back({std::string(kAdHocDomain), std::string(kAdHocName)});
}

LoopCounters& Metrics::AddLoop() {
  MutexLock lock(mutex_);
  return *loops_.emplace_back(std::make_unique<LoopCounters>());
}

Result<uint32_t> Metrics::Slot(std::string_view domain, std::string_view limit) {
  std::string key(domain);
  key.push_back('/');
  key.append(limit);
  MutexLock lock(mutex_);
  const auto found = slots_.find(key);
  if (found != slots_.end()) return found->second;
  if (names_.size() == LoopCounters::kMaxSlots) {
    return Fail(ErrorKind::kTooLarge, "more than " + std::to_string(LoopCounters::kMaxSlots) +
                                          " names of limits since the start; restart to forget old ones");
  }
  const auto slot = static_cast<uint32_t>(names_.size());
  names_.push_back({std::string(domain), std::string(limit)});
  slots_.emplace(std::move(key), slot);
  return slot;
}

void Metrics::ForEachLimit(const LimitVisitor& visit) const {
  MutexLock lock(mutex_);
  for (uint32_t slot = 0; slot < names_.size(); ++slot) {
    LimitCounts sum;
    for (const auto& loop : loops_) {
      const LimitCounters* counters = loop->Peek(slot);
      if (counters == nullptr) continue;
      for (size_t i = 0; i < kOutcomes; ++i) {
        sum.outcomes[i] += counters->outcomes[i].value();
        sum.degraded[i] += counters->degraded[i].value();
        sum.shadow[i] += counters->shadow[i].value();
      }
      sum.saturated += counters->saturated.value();
    }
    visit(names_[slot].domain, names_[slot].limit, sum);
  }
}

TotalCounts Metrics::Totals() const {
  MutexLock lock(mutex_);
  TotalCounts sum;
  for (const auto& loop : loops_) {
    const LoopTotals& totals = loop->totals;
    sum.requests += totals.requests.value();
    sum.unmatched += totals.unmatched.value();
    sum.invalid += totals.invalid.value();
    sum.conflicts += totals.conflicts.value();
    sum.replayed += totals.replayed.value();
    sum.not_replayable += totals.not_replayable.value();
    sum.repeats += totals.repeats.value();
    sum.ad_hoc_compiled += totals.ad_hoc_compiled.value();
    sum.permits_granted += totals.permits_granted.value();
    sum.permits_released += totals.permits_released.value();
    sum.permits_renewed += totals.permits_renewed.value();
    sum.permits_expired += totals.permits_expired.value();
    sum.permits_unknown += totals.permits_unknown.value();
    sum.permits_unavailable += totals.permits_unavailable.value();
    sum.permits_handed_back += totals.permits_handed_back.value();
    sum.permits_waiting += totals.permits_waiting.value();
    sum.waits_refused += totals.waits_refused.value();
    sum.asked_again += totals.asked_again.value();
    sum.releases_repeated += totals.releases_repeated.value();
    sum.releases_lost += totals.releases_lost.value();
    for (size_t i = 0; i < kReasons; ++i) sum.degraded[i] += totals.degraded[i].value();
  }
  return sum;
}

}  // namespace penstock::service
