// The slots of one shard: a flat array of 32-byte entries in the order of their names (keyed hashes), with linear
// probing from a home position that is the name scaled onto the array. Because home positions rise with the order, a
// lookup stops at the first smaller name, a sweep or a growth is one pass in place, and an entry is found in 2.5
// steps at the highest load (3/4). The array grows by an eighth at a time (mremap: pages move, bytes do not), so a
// key costs between 43 and 48 bytes once a shard holds some thousand keys.
//
// An empty slot is all zero, which is also the smallest name: the order is descending, so that one comparison ends a
// lookup at an empty slot as well as at a smaller name.
//
// Thread contract: everything under the shard's lock, except Prefetch, which any thread may call at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hash.h"

namespace penstock::engine {

// The two words pack what a bucket needs: 53 bits of value or stamp above, 11 of the 22 bits of the parameters'
// number below.
struct Slot {
  static constexpr int kParamBits = 11;
  static constexpr uint64_t kParamMask = (uint64_t{1} << kParamBits) - 1;
  static constexpr int64_t kMaxField = (int64_t{1} << (64 - kParamBits)) - 1;

  uint64_t high = 0;
  uint64_t low = 0;
  uint64_t value_word = 0;
  uint64_t stamp_word = 0;

  bool empty() const { return high == 0; }
  int64_t value() const { return static_cast<int64_t>(value_word >> kParamBits); }
  int64_t stamp() const { return static_cast<int64_t>(stamp_word >> kParamBits); }
  uint32_t params() const {
    return static_cast<uint32_t>((value_word & kParamMask) | ((stamp_word & kParamMask) << kParamBits));
  }
  // Precondition: value and stamp in [0, kMaxField].
  void Set(int64_t value, int64_t stamp, uint32_t params) {
    value_word = (static_cast<uint64_t>(value) << kParamBits) | (params & kParamMask);
    stamp_word = (static_cast<uint64_t>(stamp) << kParamBits) | (params >> kParamBits);
  }
};
static_assert(sizeof(Slot) == 32);

// A name that can stand in a slot: the high half is never 0.
constexpr Hash128 SlotName(Hash128 name) {
  name.high |= static_cast<uint64_t>(name.high == 0);
  return name;
}

// Invariant: slots_[0, capacity_ + tail) are in descending order of (high, low) with gaps of empty slots, none of which
// lies between a name and its home; the last slot is empty.
class SlotTable {
 public:
  SlotTable() = default;
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // The top `bits` bits of all names here are equal and take no part in the home position. Before the first Insert.
  void set_shard_bits(int bits) { shard_bits_ = bits; }

  // Brings the lines that a lookup of the name will read. Reads a place that may be outdated: harmless.
  void Prefetch(const Hash128& name) const {
    const auto slot = reinterpret_cast<uintptr_t>(slots_.load(std::memory_order_relaxed)) +
                      Home(name.high, capacity_.load(std::memory_order_relaxed)) * sizeof(Slot);
    __builtin_prefetch(reinterpret_cast<const void*>(slot), 1);
    __builtin_prefetch(reinterpret_cast<const void*>(slot + 2 * sizeof(Slot)), 1);
  }

  // Null when absent. The pointer holds until the next Insert, Erase, Sweep or MakeRoom.
  Slot* Find(const Hash128& name) {
    Slot* slot = slots_.load(std::memory_order_relaxed);
    if (slot == nullptr) [[unlikely]]
      return nullptr;
    slot += Home(name.high, capacity_.load(std::memory_order_relaxed));
    while (slot->high > name.high) ++slot;
    while (slot->high == name.high) {
      if (slot->low == name.low) return slot;
      if (slot->low < name.low) return nullptr;
      ++slot;
    }
    return nullptr;
  }

  // Whether `count` more names can be inserted without growth, whatever they are. count <= kMaxRoom.
  bool HasRoom(size_t count) const;
  // Grows by a step; false when there is no memory, and then nothing has changed.
  bool Grow();
  // A new slot with the name and zero words. Preconditions: HasRoom(1), the name is absent.
  Slot* Insert(const Hash128& name);
  void Erase(Slot* slot);

  // Drops every slot for which drop(slot) is true, in one pass; returns how many.
  template <class Drop>
  size_t Sweep(Drop&& drop) {
    Slot* const slots = slots_.load(std::memory_order_relaxed);
    const size_t capacity = capacity_.load(std::memory_order_relaxed);
    size_t next = 0;  // the first position that is free for the next slot kept
    size_t dropped = 0;
    for (size_t i = 0; i < total_; ++i) {
      if (slots[i].empty()) continue;
      const Slot slot = slots[i];
      if (drop(slot)) {
        slots[i] = Slot{};
        ++dropped;
        continue;
      }
      const size_t home = Home(slot.high, capacity);
      const size_t to = home > next ? home : next;
      if (to != i) {
        slots[i] = Slot{};
        slots[to] = slot;
      }
      next = to + 1;
    }
    size_ -= dropped;
    return dropped;
  }

  template <class Visit>
  void ForEach(Visit&& visit) const {
    const Slot* const slots = slots_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < total_; ++i) {
      if (!slots[i].empty()) visit(slots[i]);
    }
  }

  size_t size() const { return size_; }
  size_t bytes() const { return total_ * sizeof(Slot); }
  // Whether the invariant above holds; for tests.
  bool Check() const;

  static constexpr size_t kMaxRoom = 32;

 private:
  // Room behind the home positions for the last names' displacement.
  static constexpr size_t kTail = 64;
  static constexpr size_t kPageSlots = 4'096 / sizeof(Slot);

  // The name's part below the shard bits, as a fraction, times the capacity. Rises as names descend.
  size_t Home(uint64_t high, size_t capacity) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<size_t>((static_cast<Wide>(~high << shard_bits_) * capacity) >> 64);
  }
  static size_t MaxSize(size_t capacity) { return capacity / 4 * 3; }
  bool Resize(size_t total);
  // Moves all slots to the back; true if they, and kMaxRoom more, fit when spread from their homes by
  // `capacity`.
  bool CompactToBack(size_t capacity);
  void SpreadFromBack(size_t capacity);

  std::atomic<Slot*> slots_{nullptr};
  std::atomic<size_t> capacity_{0};  // home positions; 0 only while there are no slots
  size_t total_ = 0;                 // capacity_ + the tail
  size_t size_ = 0;
  int shard_bits_ = 0;
};

}  // namespace penstock::engine
