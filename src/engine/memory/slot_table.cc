#include "engine/memory/slot_table.h"

#include <sys/mman.h>

#include <cstring>

namespace penstock::engine {
namespace {

// Moved pages are not seen by the thread sanitizer, which would then blame their next user: there bytes are copied.
#if defined(__SANITIZE_THREAD__)
constexpr bool kMovePages = false;
#else
constexpr bool kMovePages = true;
#endif

void* MapPages(void* old, size_t old_bytes, size_t bytes) {
  if (old != nullptr && kMovePages) {
    void* moved = mremap(old, old_bytes, bytes, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? nullptr : moved;
  }
  void* fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  if (old != nullptr) {
    std::memcpy(fresh, old, old_bytes);
    munmap(old, old_bytes);
  }
  return fresh;
}

bool After(const Slot& a, const Slot& b) { return a.high != b.high ? a.high < b.high : a.low < b.low; }

}  // namespace

SlotTable::~SlotTable() {
  if (total_ > 0) munmap(slots_.load(std::memory_order_relaxed), bytes());
}

bool SlotTable::HasRoom(size_t count) const {
  if (size_ + count > MaxSize(capacity_.load(std::memory_order_relaxed))) return false;
  // The last run of slots may grow by one position with each insert, and must leave the last slot empty.
  const Slot* const slots = slots_.load(std::memory_order_relaxed);
  return slots[total_ - 1 - count].empty();
}

bool SlotTable::Resize(size_t total) {
  void* pages = MapPages(slots_.load(std::memory_order_relaxed), bytes(), total * sizeof(Slot));
  if (pages == nullptr) return false;
  slots_.store(static_cast<Slot*>(pages), std::memory_order_relaxed);
  total_ = total;
  return true;
}

bool SlotTable::Grow() {
  const size_t pages = total_ / kPageSlots;
  size_t total = (pages + (pages < 8 ? 1 : pages / 8)) * kPageSlots;
  if (!Resize(total)) return false;
  const size_t capacity = total - kTail;
  // That a run of slots reaches past the tail is next to impossible; then the tail is a page longer.
  while (!CompactToBack(capacity)) {
    total += kPageSlots;
    if (!Resize(total)) {
      // The old capacity always fits: the slots stood there.
      SpreadFromBack(capacity_.load(std::memory_order_relaxed));
      return false;
    }
  }
  SpreadFromBack(capacity);
  capacity_.store(capacity, std::memory_order_relaxed);
  return true;
}

bool SlotTable::CompactToBack(size_t capacity) {
  Slot* const slots = slots_.load(std::memory_order_relaxed);
  bool fits = true;
  size_t to = total_;
  for (size_t i = total_; i-- > 0;) {
    if (slots[i].empty()) continue;
    --to;
    // This slot and all behind it need a place each from its home on, with room for those to come (HasRoom).
    fits = fits && Home(slots[i].high, capacity) + (total_ - to) + kMaxRoom < total_;
    if (to != i) {
      slots[to] = slots[i];
      slots[i] = Slot{};
    }
  }
  return fits;
}

void SlotTable::SpreadFromBack(size_t capacity) {
  Slot* const slots = slots_.load(std::memory_order_relaxed);
  size_t next = 0;
  for (size_t i = total_ - size_; i < total_; ++i) {
    const Slot slot = slots[i];
    const size_t home = Home(slot.high, capacity);
    const size_t to = home > next ? home : next;
    // to <= i: all slots from this one on fit behind `to` (CompactToBack).
    if (to != i) {
      slots[i] = Slot{};
      slots[to] = slot;
    }
    next = to + 1;
  }
}

Slot* SlotTable::Insert(const Hash128& name) {
  Slot* at =
      slots_.load(std::memory_order_relaxed) + Home(name.high, capacity_.load(std::memory_order_relaxed));
  const Slot fresh{name.high, name.low, 0, 0};
  while (After(fresh, *at)) ++at;
  Slot* end = at;
  while (!end->empty()) ++end;
  std::memmove(at + 1, at, static_cast<size_t>(end - at) * sizeof(Slot));
  *at = fresh;
  ++size_;
  return at;
}

void SlotTable::Erase(Slot* slot) {
  Slot* const slots = slots_.load(std::memory_order_relaxed);
  const size_t capacity = capacity_.load(std::memory_order_relaxed);
  size_t i = static_cast<size_t>(slot - slots);
  while (!slots[i + 1].empty() && Home(slots[i + 1].high, capacity) <= i) {
    slots[i] = slots[i + 1];
    ++i;
  }
  slots[i] = Slot{};
  --size_;
}

bool SlotTable::Check() const {
  const Slot* const slots = slots_.load(std::memory_order_relaxed);
  const size_t capacity = capacity_.load(std::memory_order_relaxed);
  if (total_ == 0) return size_ == 0;
  if (!slots[total_ - 1].empty()) return false;
  size_t count = 0;
  const Slot* before = nullptr;
  for (size_t i = 0; i < total_; ++i) {
    if (slots[i].empty()) continue;
    ++count;
    if (before != nullptr && !After(slots[i], *before)) return false;
    before = &slots[i];
    const size_t home = Home(slots[i].high, capacity);
    if (home > i) return false;
    for (size_t j = home; j < i; ++j) {
      if (slots[j].empty()) return false;
    }
  }
  return count == size_;
}

}  // namespace penstock::engine
